/* Wrong use of rdma_lib.h: a failure with its text each time, and never a crash. */
#include "rdma_lib.h"

#define LAST_ERROR rdma_get_error
#include "check.h"

#include <pthread.h>
#include <poll.h>
#include <unistd.h>

static void *accept_for_ever(void *ctx) {
    CHECK(strcmp(rdma_get_error(), "") == 0);
    FAILS(rdma_accept_peer(ctx), "closed");
    return NULL;
}

static void *use(void *ctx) {
    CHECK(rdma_send(ctx, 0, "other thread", 13) == 0);
    FAILS(rdma_send(ctx, 7, "x", 1), "no peer 7");
    return NULL;
}

static int is_ready(rdma_context *ctx) {
    struct pollfd polled = {.fd = rdma_fd(ctx), .events = POLLIN};
    return poll(&polled, 1, 0);
}

static void wait_until_ready(rdma_context *ctx) {
    struct pollfd polled = {.fd = rdma_fd(ctx), .events = POLLIN};
    CHECK(poll(&polled, 1, -1) == 1);
}

static void without_a_context(void) {
    char data[8];
    rdma_context *wild[] = {NULL, (rdma_context *)8, (rdma_context *)data, (rdma_context *)-1};
    for (int i = 0; i < 4; i++) {
        const char *words = i == 0 ? "null was given" : "closed, or is none";
        FAILS(rdma_connect_peer(wild[i], "127.0.0.1", 1), words);
        FAILS(rdma_accept_peer(wild[i]), words);
        FAILS(rdma_disconnect_peer(wild[i], 0), words);
        FAILS(rdma_send(wild[i], 0, data, 1), words);
        FAILS(rdma_recv(wild[i], 0, data, 1), words);
        FAILS(rdma_broadcast(wild[i], data, 1), words);
        FAILS(rdma_sequential_alltoall(wild[i], data, data, 1), words);
        FAILS(rdma_isend(wild[i], 0, data, 1), words);
        FAILS(rdma_irecv(wild[i], 0, data, 1), words);
        FAILS(rdma_barrier(wild[i]), words);
        FAILS(rdma_fd(wild[i]), words);
        FAILS(rdma_test((rdma_request *)wild[i], NULL), words);
        FAILS(rdma_wait((rdma_request *)wild[i], 0), words);
        FAILS(rdma_cancel((rdma_request *)wild[i]), words);
        rdma_cleanup(wild[i]);
    }
    FAILS(rdma_init(NULL, 0, 0, true), "null was given for the address");
    FAILS(rdma_init("192.0.2.7", 0, 0, true), "not an address of this machine");
    FAILS(rdma_init("192.0.2.7", 0, 0, false), "not an address of this machine");
    FAILS(rdma_init("nowhere at all", 0, 0, true), "is no address");
    FAILS(rdma_init("127.0.0.1", -1, 0, true), "is no port");
    FAILS(rdma_init("127.0.0.1", 65536, 0, true), "is no port");
    FAILS(rdma_init("127.0.0.1", 0, (size_t)-1, true), "more than there can be");
    FAILS(rdma_init("127.0.0.1", 0, (size_t)-1, false), "more than there can be");
}

static void requests(rdma_context *server, rdma_context *client) {
    char data[64] = {0};
    int result = 7;
    rdma_request *receive = rdma_irecv(server, 0, data, sizeof data);
    CHECK(receive != NULL && rdma_test(receive, &result) == 0 && result == 7);
    CHECK(rdma_wait(receive, 1) == -2 && rdma_wait(receive, 0) == -2);
    FAILS(rdma_wait((rdma_request *)server, 0), "a context was given for a request");
    FAILS(rdma_send((rdma_context *)receive, 0, "x", 1), "a request was given for a context");
    CHECK(!is_ready(server));
    rdma_request *send = rdma_isend(client, 0, "asked for", 10);
    CHECK(send != NULL && rdma_wait(send, -1) == 10);
    FAILS(rdma_wait(send, 0), "closed");
    wait_until_ready(server);
    CHECK(rdma_test(receive, &result) == 1 && result == 10 && strcmp(data, "asked for") == 0);
    FAILS(rdma_test(receive, &result), "closed");
    CHECK(!is_ready(server));

    receive = rdma_irecv(server, 0, data, 3);
    CHECK(rdma_send(client, 0, "too long", 9) == 0);
    CHECK(rdma_wait(receive, -1) == -1 && strstr(rdma_get_error(), "it stays") != NULL);
    receive = rdma_irecv(server, 0, data, sizeof data);
    wait_until_ready(server);
    CHECK(rdma_cancel(receive) == 0);
    CHECK(rdma_recv(server, 0, data, sizeof data) == 9 && strcmp(data, "too long") == 0);

    /* What was begun is in the order of the calls. */
    rdma_request *sends[MAX_WR];
    for (int i = 0; i < MAX_WR; i++)
        sends[i] = rdma_isend(client, 0, &i, sizeof i);
    for (int i = 0; i < MAX_WR; i++) {
        int number = -1;
        CHECK(rdma_recv(server, 0, &number, sizeof number) == sizeof number && number == i);
    }
    for (int i = 0; i < MAX_WR; i++)
        CHECK(rdma_wait(sends[i], -1) == sizeof i);
}

static void memory(rdma_context *server, rdma_context *client) {
    char data[16] = {0};
    CHECK(rdma_write(client, 0, 5, "written", 8) == 0);
    CHECK(rdma_memory_get(server, 5, data, 8) == 0 && strcmp(data, "written") == 0);
    CHECK(rdma_memory_set(client, 0, "mine", 5) == 0);
    CHECK(rdma_read(server, 0, 0, data, 5) == 0 && strcmp(data, "mine") == 0);
    FAILS(rdma_write(client, 0, BUFFER_SIZE - 3, "over", 4), "not in a region");
    FAILS(rdma_read(client, 0, (size_t)-2, data, 8), "more than one call");
    FAILS(rdma_read(client, 0, 1, NULL, 8), "null was given");
    FAILS(rdma_memory_get(client, BUFFER_SIZE, data, 1), "not in a region");
}

int main(void) {
    without_a_context();
    rdma_context *server = rdma_init("127.0.0.1", 0, BUFFER_SIZE, true);
    CHECK(server != NULL);
    int port = rdma_port(server);
    FAILS(rdma_init("127.0.0.1", port, 0, true), "");
    FAILS(rdma_barrier(server), "no peer");
    rdma_context *client = rdma_init("127.0.0.1", 0, BUFFER_SIZE, false);
    CHECK(client != NULL && !is_ready(server));
    FAILS(rdma_memory_set(client, 0, "x", 1), "first rdma_connect_peer");
    FAILS(rdma_accept_peer(client), "a client cannot accept");
    FAILS(rdma_connect_peer(client, NULL, port), "null was given");
    CHECK(rdma_connect_peer(client, "127.0.0.1", port) == 0);
    wait_until_ready(server);
    CHECK(rdma_accept_peer(server) == 0 && !is_ready(server));

    char data[16] = {0};
    FAILS(rdma_send(client, 0, NULL, 8), "null was given for 8 bytes");
    FAILS(rdma_send(client, 0, data, (size_t)-1), "more than one call");
    FAILS(rdma_send(client, -1, data, 1), "no peer -1");
    FAILS(rdma_send(client, 1, data, 1), "no peer 1");
    char *large = calloc(1, 80 << 20);
    FAILS(rdma_send(client, 0, large, 80 << 20), "message_bytes_max");
    free(large);
    CHECK(rdma_send(client, 0, NULL, 0) == 0);
    CHECK(rdma_recv(server, 0, NULL, 0) == 0);
    CHECK(rdma_send(client, 0, "twelve bytes", 13) == 0);
    FAILS(rdma_recv(server, 0, data, 4), "it stays");
    FAILS(rdma_recv(server, 0, NULL, 4), "null was given");
    CHECK(rdma_recv(server, 0, data, sizeof data) == 13 && strcmp(data, "twelve bytes") == 0);
    requests(server, client);
    memory(server, client);

    pthread_t thread;
    pthread_create(&thread, NULL, use, client);
    pthread_join(thread, NULL);
    CHECK(rdma_recv(server, 0, data, sizeof data) == 13);
    pthread_create(&thread, NULL, accept_for_ever, server);

    /* The end of a peer comes after its last message. */
    CHECK(rdma_send(client, 0, "last", 5) == 0 && rdma_disconnect_peer(client, 0) == 0);
    FAILS(rdma_send(client, 0, "x", 1), "no peer 0");
    CHECK(rdma_recv(server, 0, data, sizeof data) == 5 && strcmp(data, "last") == 0);
    FAILS(rdma_recv(server, 0, data, sizeof data), "closed");
    FAILS(rdma_barrier(server), "peer 0");
    CHECK(is_ready(server) && rdma_disconnect_peer(server, 0) == 0 && !is_ready(server));

    rdma_cleanup(client);
    FAILS(rdma_peer_count(client), "closed");
    rdma_cleanup(server);
    rdma_cleanup(server);
    pthread_join(thread, NULL);
    puts("all failed as they should");
    return 0;
}
