/*
 * One rank of a world of four processes: messages, each collective operation, calls that differ,
 * and the death of a rank. Gets its number and the secret of this run; the others get the address,
 * too, that rank 0 prints.
 */
#include "ringpost.h"

#define LAST_ERROR rp_last_error
#include "check.h"

#include <unistd.h>

enum { RANKS = 4, VICTIM = 2 };

/* The call fails with this code, and a text that has these words. */
#define FAILS_AS(what, code, words)                                                                \
    do {                                                                                           \
        FAILS(what, words);                                                                        \
        CHECK(rp_last_code() == code);                                                             \
    } while (0)

static void messages(rp_world *world, int rank) {
    int next = (rank + 1) % RANKS, before = (rank + RANKS - 1) % RANKS;
    rp_status from;
    for (int tag = 0; tag < 3; tag++)
        CHECK(rp_world_send(world, next, tag, &tag, sizeof tag) == 0);
    int got = -1;
    CHECK(rp_world_recv(world, before, 2, &got, sizeof got, -1, NULL) == sizeof got && got == 2);
    FAILS_AS(rp_world_recv(world, before, 0, &got, 1, -1, NULL), RP_TOO_LARGE, "longer");
    CHECK(rp_world_recv(world, RP_ANY, RP_ANY, &got, sizeof got, -1, &from) == sizeof got);
    CHECK(got == 0 && from.source == before && from.tag == 0);
    CHECK(rp_world_recv(world, RP_ANY, 1, &got, sizeof got, -1, NULL) == sizeof got && got == 1);
    FAILS_AS(rp_world_recv(world, RP_ANY, 1, &got, sizeof got, 0, NULL), RP_WOULD_BLOCK, "wait");
    FAILS_AS(rp_world_recv(world, next, 1, &got, sizeof got, 1, NULL), RP_TIMED_OUT, "1ms");

    /* Several packets, to itself and to another. */
    size_t size = 3 << 20;
    char *large = malloc(size), *heard = calloc(1, size);
    for (size_t i = 0; i < size; i++)
        large[i] = (char)(i % 251 + rank);
    CHECK(rp_world_send(world, rank, 7, large, size) == 0);
    CHECK(rp_world_recv(world, rank, 7, heard, size, -1, NULL) == (ptrdiff_t)size);
    CHECK(memcmp(large, heard, size) == 0);
    CHECK(rp_world_send(world, next, 7, large, size) == 0);
    CHECK(rp_world_recv(world, before, 7, heard, size + 1, -1, NULL) == (ptrdiff_t)size);
    for (size_t i = 0; i < size; i++)
        CHECK(heard[i] == (char)(i % 251 + before));
    free(large);
    free(heard);
}

static void collectives(rp_world *world, int rank) {
    CHECK(rp_world_barrier(world) == 0);
    char text[16] = {0};
    if (rank == 3)
        strcpy(text, "of rank three");
    CHECK(rp_world_broadcast(world, 3, text, sizeof text) == 0);
    CHECK(strcmp(text, "of rank three") == 0);

    int own[RANKS], all[RANKS], one = -1;
    for (int i = 0; i < RANKS; i++)
        own[i] = 100 * rank + i;
    CHECK(rp_world_scatter(world, 1, rank == 1 ? own : NULL, &one, sizeof one) == 0);
    CHECK(one == 100 + rank);
    CHECK(rp_world_gather(world, 0, &own[3], rank == 0 ? all : NULL, sizeof one) == 0);
    for (int i = 0; i < RANKS && rank == 0; i++)
        CHECK(all[i] == 100 * i + 3);
    CHECK(rp_world_all_gather(world, &rank, all, sizeof rank) == 0);
    for (int i = 0; i < RANKS; i++)
        CHECK(all[i] == i);
    CHECK(rp_world_all_to_all(world, own, all, sizeof one) == 0);
    for (int i = 0; i < RANKS; i++)
        CHECK(all[i] == 100 * i + rank);

    int32_t small[2] = {rank, -rank};
    CHECK(rp_world_all_reduce(world, small, 2, RP_INT32, RP_MIN) == 0);
    CHECK(small[0] == 0 && small[1] == 1 - RANKS);
    int64_t large = (int64_t)1 << 40;
    CHECK(rp_world_all_reduce(world, &large, 1, RP_INT64, RP_SUM) == 0 && large >> 40 == RANKS);
    float half = (float)rank / 2;
    CHECK(rp_world_all_reduce(world, &half, 1, RP_FLOAT, RP_MAX) == 0 && half == 1.5F);
    static double many[20000];
    for (int i = 0; i < 20000; i++)
        many[i] = i + rank;
    CHECK(rp_world_all_reduce(world, many, 20000, RP_DOUBLE, RP_SUM) == 0);
    for (int i = 0; i < 20000; i++)
        CHECK(many[i] == RANKS * i + 6);

    /* A call that differs fails for all, and the next one does not. */
    int root = rank == 1 ? 1 : 0;
    FAILS_AS(rp_world_broadcast(world, root, text, sizeof text), RP_FAILED, "broadcast(root 1");
    FAILS_AS(rp_world_all_gather(world, own, all, rank == 2 ? 8 : 4), RP_FAILED, "all_gather");
    FAILS_AS(rp_world_all_reduce(world, &large, 1, RP_INT64, rank == 0 ? RP_MAX : RP_MIN),
             RP_FAILED, "all_reduce");
    FAILS_AS(rp_world_all_reduce(world, many, 1, rank == 0 ? RP_DOUBLE : RP_INT64, RP_SUM),
             RP_FAILED, "all_reduce");
    if (rank == 3)
        CHECK(rp_world_barrier(world) == -1);
    else
        CHECK(rp_world_gather(world, 3, &one, NULL, sizeof one) == -1);
    CHECK(strstr(rp_last_error(), "barrier") != NULL);
    CHECK(rp_world_barrier(world) == 0);
}

/* One rank is killed: the others are told its number, and go on without it. */
static rp_world *death(rp_world *world, int rank) {
    char byte = 0;
    if (rank == VICTIM) {
        /* The others have ended their operations, too: one under way would fail. */
        for (int other = 0; other < RANKS; other++)
            CHECK(other == rank || rp_world_recv(world, other, 3, &byte, 1, -1, NULL) != -1);
        puts("about to die");
        fflush(stdout);
        for (;;)
            pause();
    }
    CHECK(rp_world_send(world, VICTIM, 3, &byte, 1) == 0);
    FAILS_AS(rp_world_recv(world, VICTIM, 1, &byte, 1, -1, NULL), RP_RANK_DIED, "");
    /* A rank that was faster has revoked the world already. */
    CHECK(strstr(rp_last_error(), "rank 2 has died") || strstr(rp_last_error(), "revoked"));
    FAILS_AS(rp_world_barrier(world), RP_RANK_DIED, "");
    rp_world *smaller = rp_world_shrink(world);
    CHECK(smaller != NULL);
    CHECK(rp_world_size(smaller) == RANKS - 1);
    FAILS_AS(rp_world_send(world, 0, 1, "x", 1), RP_RANK_DIED, "revoked");
    CHECK(rp_world_leave(world) == 0);
    int64_t sum = rank;
    CHECK(rp_world_all_reduce(smaller, &sum, 1, RP_INT64, RP_SUM) == 0 && sum == 0 + 1 + 3);
    return smaller;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    setenv("RINGPOST_SECRET", argv[2], 1);
    int rank = atoi(argv[1]);
    char name[] = "rank0", address[300];
    name[4] = *argv[1];
    if (argc > 3)
        setenv("RINGPOST_SEEDS", argv[3], 1);
    rp_node *node = rp_node_start(name, "127.0.0.1:0");
    CHECK(node != NULL && rp_node_address(node, address, sizeof address) > 0);
    puts(address);
    fflush(stdout);
    rp_world *world = rp_world_join(node, "four", RANKS, rank, 600000);
    CHECK(world != NULL && rp_world_rank(world) == rank && rp_world_size(world) == RANKS);
    messages(world, rank);
    collectives(world, rank);
    world = death(world, rank);
    /* The last one has left when nobody waits for it any more. */
    CHECK(rp_world_barrier(world) == 0 && rp_world_leave(world) == 0);
    CHECK(rp_node_shutdown(node, -1) == 0);
    printf("rank %d is well\n", rank);
    return 0;
}
