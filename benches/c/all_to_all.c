/*
 * Times the all-to-all of rdma_lib.h by three processes, a server and two clients, with 64 bytes:
 * prints the mean time of a call at the server, in microseconds. A call has an exchange with each
 * client in it.
 *
 *     c-all-to-all SECONDS
 */
#include "rdma_lib.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 2, SIZE = 64, WARM_UP_CALLS = 100 };

static int check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, rdma_get_error());
        exit(1);
    }
    return result;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void exchange(rdma_context *ctx, long calls) {
    char own[SIZE] = "a message", all[CLIENTS * SIZE];
    for (long i = 0; i < calls; i++)
        check(rdma_sequential_alltoall(ctx, own, all, SIZE), "rdma_sequential_alltoall");
}

static void client(int port) {
    rdma_context *ctx = rdma_init("127.0.0.1", port, BUFFER_SIZE, false);
    check(ctx == NULL ? -1 : 0, "rdma_init");
    int server = check(rdma_connect_peer(ctx, "127.0.0.1", port), "rdma_connect_peer");
    long calls;
    do {
        check(rdma_recv(ctx, server, &calls, sizeof calls), "rdma_recv");
        exchange(ctx, calls);
    } while (calls > 0);
    rdma_cleanup(ctx);
    exit(0);
}

/* Has all make so many calls, and returns the time in seconds that they took at the server. */
static double run(rdma_context *ctx, long calls) {
    check(rdma_broadcast(ctx, &calls, sizeof calls), "rdma_broadcast");
    double start = now();
    exchange(ctx, calls);
    return now() - start;
}

int main(int argc, char **argv) {
    int ports[2], port;
    if (argc != 2 || pipe(ports) != 0)
        return 2;
    /* Before the first call of the library: a child that is forked later may not call it. */
    for (int i = 0; i < CLIENTS; i++)
        if (fork() == 0) {
            if (read(ports[0], &port, sizeof port) == sizeof port)
                client(port);
            exit(1);
        }
    rdma_context *ctx = rdma_init("127.0.0.1", 0, BUFFER_SIZE, true);
    check(ctx == NULL ? -1 : 0, "rdma_init");
    port = rdma_port(ctx);
    for (int i = 0; i < CLIENTS; i++)
        if (write(ports[1], &port, sizeof port) != sizeof port)
            return 1;
    for (int i = 0; i < CLIENTS; i++)
        check(rdma_accept_peer(ctx), "rdma_accept_peer");

    long calls = WARM_UP_CALLS * atof(argv[1]) / run(ctx, WARM_UP_CALLS) + 1;
    printf("%f\n", run(ctx, calls) * 1e6 / calls);
    check(rdma_broadcast(ctx, &(long){0}, sizeof calls), "rdma_broadcast");
    while (wait(NULL) > 0) {
    }
    rdma_cleanup(ctx);
    return 0;
}
