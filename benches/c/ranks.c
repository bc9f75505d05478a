/*
 * Times a collective operation of MPI as the OSU micro-benchmarks do it: the mean time of a call,
 * with a barrier before each, and of that the mean over the ranks, in microseconds.
 *
 *     ranks barrier|all_reduce|broadcast|all_to_all COUNT SECONDS
 *
 * COUNT is of numbers of 8 bytes (all_reduce) or of bytes (of each rank for each rank: all_to_all).
 * benches/bin/ranks.rs is the same for Ringpost.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP_CALLS = 100 };

static const char *operation;
static int count, ranks;
static double *numbers;
static char *mine, *theirs;

static void call(void) {
    if (strcmp(operation, "barrier") == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    else if (strcmp(operation, "all_reduce") == 0)
        MPI_Allreduce(MPI_IN_PLACE, numbers, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else if (strcmp(operation, "broadcast") == 0)
        MPI_Bcast(mine, count, MPI_CHAR, 0, MPI_COMM_WORLD);
    else if (strcmp(operation, "all_to_all") == 0)
        MPI_Alltoall(mine, count, MPI_CHAR, theirs, count, MPI_CHAR, MPI_COMM_WORLD);
    else
        MPI_Abort(MPI_COMM_WORLD, 2);
}

/* Returns the time that this rank was in so many calls, in seconds. */
static double run(long calls) {
    double time = 0;
    for (long i = 0; i < calls; i++) {
        double start = MPI_Wtime();
        call();
        time += MPI_Wtime() - start;
        if (strcmp(operation, "barrier") != 0)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    return time;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc != 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    operation = argv[1];
    count = atoi(argv[2]);
    numbers = calloc(count + 1, sizeof *numbers);
    mine = calloc(ranks, count + 1);
    theirs = calloc(ranks, count + 1);

    double start = MPI_Wtime();
    run(WARM_UP_CALLS);
    double wanted = WARM_UP_CALLS * atof(argv[3]) / (MPI_Wtime() - start);
    /* The first rank says how many, as all make as many. */
    long calls = wanted < 10 ? 10 : wanted > 1e6 ? 1000000 : (long)wanted;
    MPI_Bcast(&calls, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    double own = run(calls), sum;
    MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%f\n", sum * 1e6 / calls / ranks);
    MPI_Finalize();
    return 0;
}
