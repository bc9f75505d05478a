/*
 * A server of three clients, two of which are killed: one while the server waits for its message,
 * one while it waits for its part of an all-to-all. Clients get the address, the port and what they
 * do.
 */
#include "rdma_lib.h"

#define LAST_ERROR rdma_get_error
#include "check.h"

#include <unistd.h>

enum { CLIENTS = 3, SIZE = 64 };

static void say(const char *text) {
    puts(text);
    fflush(stdout);
}

static void be_client(const char *ip, int port, int works) {
    char own[SIZE] = "a client", heard[SIZE];
    rdma_context *ctx = rdma_init(ip, 0, 0, false);
    CHECK(ctx != NULL && rdma_connect_peer(ctx, ip, port) == 0);
    say("connected");
    while (!works)
        pause();
    CHECK(rdma_sequential_alltoall(ctx, own, heard, SIZE) == 0 && strcmp(heard, "the server") == 0);
    CHECK(rdma_barrier(ctx) == 0);
    rdma_cleanup(ctx);
}

int main(int argc, char **argv) {
    if (argc == 4) {
        be_client(argv[1], atoi(argv[2]), strcmp(argv[3], "works") == 0);
        return 0;
    }
    rdma_context *ctx = rdma_init("127.0.0.1", 0, 0, true);
    CHECK(ctx != NULL);
    printf("%d\n", rdma_port(ctx));
    fflush(stdout);
    for (int client = 0; client < CLIENTS; client++) {
        CHECK(rdma_accept_peer(ctx) == client);
        say("accepted");
    }

    char own[SIZE] = "the server", all[CLIENTS * SIZE] = {0};
    say("receiving");
    CHECK(rdma_recv(ctx, 0, all, SIZE) == -1);
    say(rdma_get_error());
    CHECK(rdma_send(ctx, 0, own, SIZE) == -1 && strlen(rdma_get_error()) > 0);
    CHECK(rdma_disconnect_peer(ctx, 0) == 0);

    say("exchanging");
    CHECK(rdma_sequential_alltoall(ctx, own, all, SIZE) == -1);
    say(rdma_get_error());
    CHECK(rdma_disconnect_peer(ctx, 1) == 0);
    CHECK(rdma_barrier(ctx) == 0);
    rdma_cleanup(ctx);
    puts("well");
    return 0;
}
