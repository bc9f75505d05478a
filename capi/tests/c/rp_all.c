/* All of ringpost.h between two nodes of one program, and its wrong use. */
#include "ringpost.h"

#define LAST_ERROR rp_last_error
#include "check.h"

#include <poll.h>
#include <pthread.h>

/* The call fails with this code, and a text that has these words. */
#define FAILS_AS(what, code, words)                                                                \
    do {                                                                                           \
        FAILS(what, words);                                                                        \
        CHECK(rp_last_code() == code);                                                             \
    } while (0)

static int is_ready(int fd) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, 0);
}

static void *recv_for_ever(void *channel) {
    char data[8];
    FAILS_AS(rp_channel_recv(channel, data, sizeof data, -1), RP_INVALID, "closed");
    return NULL;
}

static void channels(rp_node *server, rp_node *client) {
    char data[32] = {0};
    FAILS_AS(rp_channel_connect(client, "server/orders"), RP_NOT_FOUND, "server/orders");
    rp_listener *listener = rp_channel_listen(server, "orders");
    CHECK(listener != NULL);
    FAILS(rp_channel_listen(server, "orders"), "orders");
    FAILS_AS(rp_channel_accept(listener, 0), RP_WOULD_BLOCK, "wait");
    FAILS_AS(rp_channel_accept(listener, 1), RP_TIMED_OUT, "1ms");
    FAILS_AS(rp_stream_accept(listener, -1), RP_INVALID, "accepts channels");
    rp_channel *here = rp_channel_connect(client, "server/orders");
    CHECK(here != NULL);
    rp_channel *there = rp_channel_accept(listener, -1);
    CHECK(there != NULL);
    CHECK(rp_listener_close(listener) == 0);
    FAILS_AS(rp_listener_close(listener), RP_INVALID, "closed, or is none");

    CHECK(!is_ready(rp_channel_fd(there)));
    FAILS_AS(rp_channel_try_recv(there, data, 8), RP_WOULD_BLOCK, "wait");
    CHECK(rp_channel_send(here, "three of them", 14) == 0);
    struct pollfd polled = {.fd = rp_channel_fd(there), .events = POLLIN};
    CHECK(poll(&polled, 1, -1) == 1);
    FAILS_AS(rp_channel_recv(there, data, 8, -1), RP_TOO_LARGE, "it stays");
    FAILS_AS(rp_channel_recv(there, NULL, 8, -1), RP_INVALID, "null was given");
    CHECK(rp_channel_try_recv(there, data, sizeof data) == 14);
    CHECK(strcmp(data, "three of them") == 0 && !is_ready(rp_channel_fd(there)));
    FAILS_AS(rp_channel_send(here, data, (size_t)-1), RP_TOO_LARGE, "more than one call");
    FAILS_AS(rp_channel_send((rp_channel *)server, data, 1), RP_INVALID, "a node was given");

    /* The peer receives what was sent, and then the end; a thread that waits hears of the close. */
    pthread_t thread;
    pthread_create(&thread, NULL, recv_for_ever, here);
    CHECK(rp_channel_send(here, "last", 5) == 0 && rp_channel_close(here) == 0);
    pthread_join(thread, NULL);
    CHECK(rp_channel_recv(there, data, sizeof data, -1) == 5 && strcmp(data, "last") == 0);
    FAILS_AS(rp_channel_recv(there, data, sizeof data, -1), RP_ENDED, "closed");
    FAILS_AS(rp_channel_send(here, "x", 1), RP_INVALID, "closed, or is none");
    CHECK(is_ready(rp_channel_fd(there)) && rp_channel_close(there) == 0);
    FAILS_AS(rp_channel_fd(there), RP_INVALID, "closed, or is none");
}

enum { LARGE = 3 << 20 };

static void *echo(void *listener) {
    rp_stream *stream = rp_stream_accept(listener, -1);
    CHECK(stream != NULL);
    static char data[10000];
    for (;;) {
        ptrdiff_t count = rp_stream_read(stream, data, sizeof data, -1);
        CHECK(count >= 0);
        if (count == 0)
            break;
        CHECK(rp_stream_write(stream, data, count) == 0);
    }
    CHECK(rp_stream_close(stream, -1) == 0);
    return NULL;
}

static void *write_all(void *stream) {
    char *data = malloc(LARGE);
    for (int i = 0; i < LARGE; i++)
        data[i] = (char)(i % 251);
    CHECK(rp_stream_write(stream, data, LARGE) == 0);
    CHECK(rp_stream_sync(stream, -1) == 0 && rp_stream_shutdown(stream) == 0);
    FAILS(rp_stream_write(stream, data, 1), "");
    free(data);
    return NULL;
}

static void streams(rp_node *server, rp_node *client) {
    rp_listener *listener = rp_stream_listen(server, "echo");
    CHECK(listener != NULL);
    FAILS_AS(rp_channel_accept(listener, -1), RP_INVALID, "accepts streams");
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, echo, listener);
    rp_stream *stream = rp_stream_connect(client, "server/echo");
    CHECK(stream != NULL);
    char data[999];
    CHECK(rp_stream_read(stream, data, 0, -1) == 0);
    FAILS_AS(rp_stream_read(stream, data, 1, 0), RP_WOULD_BLOCK, "wait");
    FAILS_AS(rp_stream_read(stream, data, 1, 1), RP_TIMED_OUT, "1ms");
    FAILS_AS(rp_stream_read(stream, NULL, 1, -1), RP_INVALID, "null was given");
    FAILS_AS(rp_stream_write(stream, NULL, 1), RP_INVALID, "null was given");
    FAILS_AS(rp_stream_write(stream, data, (size_t)-1), RP_TOO_LARGE, "more than one call");
    pthread_create(&threads[1], NULL, write_all, stream);
    size_t read = 0;
    for (;;) {
        ptrdiff_t count = rp_stream_read(stream, data, sizeof data, -1);
        CHECK(count >= 0);
        if (count == 0)
            break;
        for (ptrdiff_t i = 0; i < count; i++)
            CHECK(data[i] == (char)((read + i) % 251));
        read += count;
    }
    CHECK(read == LARGE);
    pthread_join(threads[1], NULL);
    CHECK(rp_stream_close(stream, -1) == 0);
    FAILS_AS(rp_stream_read(stream, data, 1, -1), RP_INVALID, "closed, or is none");
    FAILS_AS(rp_stream_close(stream, -1), RP_INVALID, "closed, or is none");
    pthread_join(threads[0], NULL);
    CHECK(rp_listener_close(listener) == 0);
}

enum { ADDERS = 4, ROUNDS = 100 };

static void *add(void *remote) {
    for (int i = 0; i < ROUNDS; i++)
        CHECK(rp_remote_fetch_add(remote, 8, 1, NULL) == 0);
    return NULL;
}

static void regions(rp_node *server, rp_node *client) {
    char data[32] = {0};
    FAILS_AS(rp_region_new(server, (size_t)-1), RP_FAILED, "");
    rp_region *region = rp_region_new(server, 100);
    CHECK(region != NULL && rp_region_set(region, 90, "at the end", 10) == 0);
    FAILS(rp_region_set(region, 91, "at the end", 10), "not in a region");
    FAILS(rp_region_get(region, (size_t)-1, data, 2), "more than one call");
    FAILS_AS(rp_region_share(region, "board", 0), RP_INVALID, "RP_ATOMIC");
    FAILS_AS(rp_region_share(region, "board", 8), RP_INVALID, "RP_ATOMIC");
    FAILS(rp_remote_open(client, "server/board"), "");
    CHECK(rp_region_share(region, "board", RP_READ | RP_WRITE | RP_ATOMIC) == 0);
    FAILS_AS(rp_region_share(region, "other", RP_READ), RP_INVALID, "already");
    rp_remote *remote = rp_remote_open(client, "server/board");
    CHECK(remote != NULL && rp_remote_len(remote) == 100);
    CHECK(rp_remote_read(remote, 90, data, 10) == 0 && memcmp(data, "at the end", 10) == 0);
    CHECK(rp_remote_write(remote, 3, "begin", 6) == 0);
    CHECK(rp_region_get(region, 3, data, 6) == 0 && strcmp(data, "begin") == 0);
    FAILS(rp_remote_read(remote, 100, data, 1), "not in a region");
    FAILS_AS(rp_remote_read(remote, 0, NULL, 1), RP_INVALID, "null was given");

    uint64_t before = 7;
    CHECK(rp_region_set(region, 8, (char[8]){0}, 8) == 0);
    pthread_t threads[ADDERS];
    for (int i = 0; i < ADDERS; i++)
        pthread_create(&threads[i], NULL, add, remote);
    for (int i = 0; i < ADDERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(rp_remote_compare_exchange(remote, 8, 1, 2, &before) == 0 && before == ADDERS * ROUNDS);
    CHECK(rp_remote_compare_exchange(remote, 8, before, 5, NULL) == 1);
    CHECK(rp_remote_fetch_add(remote, 8, (uint64_t)-1, &before) == 0 && before == 5);
    FAILS_AS(rp_remote_fetch_add(remote, 12, 1, NULL), RP_INVALID, "no multiple of 8");
    FAILS(rp_remote_fetch_add(remote, 96, 1, NULL), "not in a region");

    CHECK(rp_region_revoke(region) == 0);
    FAILS(rp_remote_read(remote, 0, data, 1), "not shared any more");
    FAILS(rp_remote_open(client, "server/board"), "");
    CHECK(rp_region_share(region, "board", RP_READ) == 0);
    rp_remote *second = rp_remote_open(client, "server/board");
    CHECK(second != NULL && rp_remote_read(second, 90, data, 10) == 0);
    FAILS(rp_remote_write(second, 0, "x", 1), "not shared to");
    CHECK(rp_region_close(region) == 0);
    FAILS(rp_remote_read(second, 0, data, 1), "not shared any more");
    FAILS_AS(rp_region_get(region, 0, data, 1), RP_INVALID, "closed, or is none");
    CHECK(rp_remote_close(remote) == 0 && rp_remote_close(second) == 0);
    FAILS_AS(rp_remote_len(remote), RP_INVALID, "closed, or is none");
}

static void *leave(void *world) {
    char data[8];
    CHECK(rp_world_recv(world, 0, 3, data, sizeof data, -1, NULL) == 5);
    CHECK(rp_world_leave(world) == 0);
    return NULL;
}

static void worlds(rp_node *node) {
    char data[8] = {0}, *large = calloc(1, 80 << 20);
    double number = 4;
    FAILS_AS(rp_world_join(NULL, "job", 1, RP_ANY, -1), RP_INVALID, "null was given for a node");
    FAILS_AS(rp_world_join(node, NULL, 1, RP_ANY, -1), RP_INVALID, "null was given for the name");
    FAILS_AS(rp_world_join(node, "no job", 1, RP_ANY, -1), RP_INVALID, "no job");
    FAILS_AS(rp_world_join(node, "job", 0, RP_ANY, -1), RP_INVALID, "1 to 4096");
    FAILS_AS(rp_world_join(node, "job", (size_t)-1, RP_ANY, -1), RP_INVALID, "1 to 4096");
    FAILS_AS(rp_world_join(node, "job", 2, 2, -1), RP_INVALID, "0 to 1");
    FAILS_AS(rp_world_join(node, "job", 2, -2, -1), RP_INVALID, "no rank -2");
    FAILS_AS(rp_world_join(node, "job", 2, 1, 1), RP_TIMED_OUT, "still misses the ranks 0");
    unsetenv("RINGPOST_RANK");
    FAILS_AS(rp_world_from_env(), RP_INVALID, "RINGPOST_");
    FAILS_AS(rp_world_rank(NULL), RP_INVALID, "null was given for a world");
    FAILS_AS(rp_world_barrier((rp_world *)node), RP_INVALID, "a node was given for a world");

    rp_world *world = rp_world_join(node, "job", 1, RP_ANY, -1);
    CHECK(world != NULL && rp_world_rank(world) == 0 && rp_world_size(world) == 1);
    FAILS_AS(rp_world_join(node, "job", 1, RP_ANY, -1), RP_FAILED, "already");
    FAILS_AS(rp_world_send(world, 1, 0, data, 1), RP_INVALID, "no rank 1");
    FAILS_AS(rp_world_send(world, -1, 0, data, 1), RP_INVALID, "no rank -1");
    FAILS_AS(rp_world_send(world, 0, -1, data, 1), RP_INVALID, "-1 is no tag");
    FAILS_AS(rp_world_send(world, 0, 0, NULL, 1), RP_INVALID, "null was given");
    FAILS_AS(rp_world_send(world, 0, 0, data, (size_t)-1), RP_TOO_LARGE, "more than one call");
    FAILS_AS(rp_world_recv(world, 0, 0, NULL, 1, -1, NULL), RP_INVALID, "null was given");
    FAILS_AS(rp_world_recv(world, 4, 0, data, 1, -1, NULL), RP_INVALID, "no rank 4");
    FAILS_AS(rp_world_recv(world, 0, 0, data, 1, 0, NULL), RP_WOULD_BLOCK, "wait");
    CHECK(rp_world_send(world, 0, 3, NULL, 0) == 0);
    CHECK(rp_world_recv(world, 0, 3, NULL, 0, -1, NULL) == 0);
    FAILS_AS(rp_world_broadcast(world, 1, data, 1), RP_INVALID, "no rank 1");
    FAILS_AS(rp_world_broadcast(world, 0, NULL, 1), RP_INVALID, "null was given");
    FAILS_AS(rp_world_scatter(world, 0, NULL, data, 1), RP_INVALID, "null was given");
    FAILS_AS(rp_world_gather(world, 0, data, NULL, 1), RP_INVALID, "null was given");
    FAILS_AS(rp_world_all_gather(world, data, NULL, 1), RP_INVALID, "null was given");
    FAILS_AS(rp_world_all_to_all(world, NULL, data, 1), RP_INVALID, "null was given");
    FAILS_AS(rp_world_all_reduce(world, NULL, 1, RP_DOUBLE, RP_SUM), RP_INVALID, "null was given");
    FAILS_AS(rp_world_all_reduce(world, &number, 1, 0, RP_SUM), RP_INVALID, "0 is no type");
    FAILS_AS(rp_world_all_reduce(world, &number, 1, RP_DOUBLE, 7), RP_INVALID, "no reduction");
    FAILS_AS(rp_world_all_reduce(world, &number, (size_t)1 << 62, RP_DOUBLE, RP_SUM), RP_TOO_LARGE,
             "more than one call");
    CHECK(rp_world_all_reduce(world, &number, 1, RP_DOUBLE, RP_SUM) == 0 && number == 4);
    CHECK(rp_world_broadcast(world, 0, large, 80 << 20) == 0);
    free(large);

    /* Another thread waits, and then leaves: a call that waits here hears of it. */
    pthread_t thread;
    pthread_create(&thread, NULL, leave, world);
    CHECK(rp_world_send(world, 0, 3, "leave", 5) == 0);
    FAILS_AS(rp_world_recv(world, 0, 4, data, 1, -1, NULL), RP_INVALID, "");
    pthread_join(thread, NULL);
    FAILS_AS(rp_world_leave(world), RP_INVALID, "closed, or is none");
    FAILS_AS(rp_world_shrink(world), RP_INVALID, "closed, or is none");

    setenv("RINGPOST_RANK", "0", 1);
    setenv("RINGPOST_SIZE", "1", 1);
    setenv("RINGPOST_HOSTS", "127.0.0.1:0", 1);
    world = rp_world_from_env();
    CHECK(world != NULL && rp_world_size(world) == 1 && rp_world_leave(world) == 0);
}

int main(void) {
    char text[65], address[300];
    CHECK(rp_last_code() == 0 && strcmp(rp_last_error(), "") == 0 && rp_version()[0] != 0);
    FAILS(rp_node_start("no name", NULL), "no name");
    FAILS(rp_node_start("server", "nowhere"), "nowhere");
    FAILS_AS(rp_node_name(NULL, text, sizeof text), RP_INVALID, "null was given for a node");
    FAILS_AS(rp_node_client(NULL, NULL, 0), RP_INVALID, "null was given for the address");
    rp_node *server = rp_node_start("server", "127.0.0.1:0");
    CHECK(server != NULL && rp_node_name(server, text, sizeof text) == 6);
    FAILS_AS(rp_node_name(server, text, 6), RP_TOO_LARGE, "7 bytes");
    FAILS_AS(rp_node_name(server, NULL, 100), RP_INVALID, "null was given");
    CHECK(strcmp(text, "server") == 0 && rp_node_address(server, address, sizeof address) > 0);
    rp_node *client = rp_node_client(address, text, sizeof text);
    CHECK(client != NULL && strcmp(text, "server") == 0);
    FAILS_AS(rp_node_address(client, text, sizeof text), RP_FAILED, "does not listen");
    CHECK(rp_node_connect(client, address, NULL, 0) == 0 && rp_node_ready(server, 1, -1) == 0);
    FAILS_AS(rp_node_ready(server, 2, 1), RP_TIMED_OUT, "1ms");
    channels(server, client);
    streams(server, client);
    regions(server, client);
    worlds(server);
    CHECK(rp_node_shutdown(client, -1) == 0 && rp_node_shutdown(server, -1) == 0);
    FAILS_AS(rp_node_shutdown(server, -1), RP_INVALID, "closed, or is none");
    FAILS_AS(rp_stream_listen(server, "late"), RP_INVALID, "closed, or is none");
    puts("all is well");
    return 0;
}
