/* A server that has two clients, starts them, and exchanges a greeting with each. */
#include "rdma_lib.h"

#include <stdio.h>
#include <string.h>

enum { CLIENTS = 2, SIZE = 48 };

static int fail(rdma_context *ctx, const char *what) {
    fprintf(stderr, "%s: %s\n", what, rdma_get_error());
    rdma_cleanup(ctx);
    return 1;
}

int main(int argc, char **argv) {
    const char *ip = argc > 1 ? argv[1] : "127.0.0.1";
    rdma_context *ctx = rdma_init(ip, 0, 4 * BUFFER_SIZE, true);
    if (ctx == NULL)
        return fail(ctx, "rdma_init");
    printf("%d\n", rdma_port(ctx));
    fflush(stdout);
    for (int client = 0; client < CLIENTS; client++)
        if (rdma_accept_peer(ctx) != client)
            return fail(ctx, "rdma_accept_peer");

    const char go[] = "go";
    for (int client = 0; client < CLIENTS; client++)
        if (rdma_send(ctx, client, go, sizeof go) < 0)
            return fail(ctx, "rdma_send");

    char own[SIZE] = "hub", all[CLIENTS * SIZE];
    if (rdma_sequential_alltoall(ctx, own, all, SIZE) < 0)
        return fail(ctx, "rdma_sequential_alltoall");
    for (int client = 0; client < CLIENTS; client++)
        printf("%s\n", all + client * SIZE);
    rdma_cleanup(ctx);
    return 0;
}
