/* A client that waits for the start and exchanges a greeting with its server. */
#include "rdma_lib.h"

#include <stdio.h>
#include <string.h>

enum { SIZE = 48 };

static int fail(rdma_context *ctx, const char *what) {
    fprintf(stderr, "%s: %s\n", what, rdma_get_error());
    rdma_cleanup(ctx);
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    const char *ip = argv[1], *name = argv[3];
    int port = atoi(argv[2]);
    rdma_context *ctx = rdma_init(ip, port, 4 * BUFFER_SIZE, false);
    if (ctx == NULL)
        return fail(ctx, "rdma_init");
    int server = rdma_connect_peer(ctx, ip, port);
    if (server < 0)
        return fail(ctx, "rdma_connect_peer");

    char start[SIZE];
    if (rdma_recv(ctx, server, start, SIZE) < 0)
        return fail(ctx, "rdma_recv");
    printf("%s\n", start);

    char own[SIZE] = {0}, all[BUFFER_SIZE] = {0};
    snprintf(own, sizeof own, "spoke %s", name);
    if (rdma_sequential_alltoall(ctx, own, all, SIZE) < 0)
        return fail(ctx, "rdma_sequential_alltoall");
    printf("%s\n", all);
    rdma_cleanup(ctx);
    return 0;
}
