/* One server and MAX_PEERS clients, each a thread: collectives, messages, and one client too many. */
#include "rdma_lib.h"

#define LAST_ERROR rdma_get_error
#include "check.h"

#include <pthread.h>
#include <stdint.h>

enum { SIZE = 64, POSITIONS = MAX_PEERS + 1 };

static int port;
static char zero[SIZE];

static int64_t sum_of_all(int64_t own, rdma_context *ctx) {
    int64_t sum;
    CHECK(rdma_all_reduce_int64(ctx, RDMA_SUM, &own, &sum, 1) == 0);
    return sum;
}

/* What all do together, with a number of their own. Returns the position that this has. */
static void together(rdma_context *ctx, int is_server, int64_t number) {
    char own[SIZE] = {0}, part[SIZE], *all = calloc(POSITIONS, SIZE);
    memcpy(own, &number, sizeof number);
    CHECK(rdma_barrier(ctx) == 0);
    CHECK(sum_of_all(number, ctx) == (int64_t)MAX_PEERS * (MAX_PEERS + 1) / 2);
    double numbers[2] = {number, -number}, least[2];
    CHECK(rdma_all_reduce_double(ctx, RDMA_MIN, numbers, least, 2) == 0);
    CHECK(least[0] == 0 && least[1] == -MAX_PEERS);
    CHECK(rdma_all_reduce_double(ctx, RDMA_MAX, numbers, numbers, 2) == 0);
    CHECK(numbers[0] == MAX_PEERS && numbers[1] == 0);

    CHECK(rdma_all_gather(ctx, own, all, SIZE, POSITIONS * SIZE) == POSITIONS);
    int64_t sum = 0, position = -1;
    for (int i = 0; i < POSITIONS; i++) {
        int64_t there;
        memcpy(&there, all + i * SIZE, sizeof there);
        sum += there;
        if (there == number)
            position = i;
    }
    CHECK(sum == (int64_t)MAX_PEERS * (MAX_PEERS + 1) / 2 && (position == 0) == is_server);

    /* The server gives back what it gathers: each gets its own again. */
    memset(all, 0, POSITIONS * SIZE);
    CHECK(rdma_gather(ctx, own, is_server ? all : NULL, SIZE) == 0);
    CHECK(rdma_scatter(ctx, is_server ? all : NULL, part, SIZE) == 0);
    CHECK(memcmp(part, own, SIZE) == 0);

    /* All call another one, or with another size: it fails for all, and the next one does not. */
    CHECK((is_server ? rdma_barrier(ctx) : rdma_gather(ctx, own, NULL, SIZE)) == -1);
    CHECK(strstr(rdma_get_error(), "this side called a barrier of 0 bytes each, and peer"));
    FAILS(rdma_all_gather(ctx, own, all, is_server ? 8 : 16, POSITIONS * SIZE), "all-gather");
    FAILS(rdma_all_reduce_int64(ctx, 4, &sum, &sum, 1), "no such operation");
    FAILS(rdma_all_reduce_int64(ctx, RDMA_SUM, &sum, &sum, (size_t)1 << 62), "more than one call");
    FAILS(rdma_all_gather(ctx, own, all, SIZE, SIZE), "the room 64");
    CHECK(rdma_barrier(ctx) == 0);
    free(all);
}

static void *client(void *argument) {
    int64_t number = (intptr_t)argument;
    rdma_context *ctx = rdma_init("127.0.0.1", port, 0, false);
    CHECK(ctx != NULL);
    /* Under valgrind one after the other: there 64 that shake hands at once take minutes. */
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    int is_slow = getenv("RINGPOST_VALGRIND") != NULL;
    CHECK(!is_slow || pthread_mutex_lock(&turn) == 0);
    CHECK(rdma_connect_peer(ctx, "127.0.0.1", port) == 0);
    CHECK(!is_slow || pthread_mutex_unlock(&turn) == 0);
    char own[SIZE] = {0}, heard[SIZE] = {0};
    memcpy(own, &number, sizeof number);
    CHECK(rdma_recv(ctx, 0, heard, SIZE) == SIZE && memcmp(heard, zero, SIZE) == 0);
    CHECK(rdma_sequential_alltoall(ctx, own, heard, SIZE) == 0);
    CHECK(strcmp(heard, "the server") == 0);
    together(ctx, 0, number);
    CHECK(rdma_send(ctx, 0, own, SIZE) == 0);
    rdma_cleanup(ctx);
    return NULL;
}

int main(void) {
    rdma_context *ctx = rdma_init("127.0.0.1", 0, 0, true);
    CHECK(ctx != NULL);
    port = rdma_port(ctx);
    pthread_t threads[MAX_PEERS];
    for (intptr_t i = 0; i < MAX_PEERS; i++)
        CHECK(pthread_create(&threads[i], NULL, client, (void *)(i + 1)) == 0);
    for (int i = 0; i < MAX_PEERS; i++)
        CHECK(rdma_accept_peer(ctx) == i);
    CHECK(rdma_peer_count(ctx) == MAX_PEERS);

    rdma_context *late = rdma_init("127.0.0.1", port, 0, false);
    FAILS(rdma_connect_peer(late, "127.0.0.1", port), "the server has 64 peers already");
    rdma_cleanup(late);

    CHECK(rdma_broadcast(ctx, zero, SIZE) == 0);
    char own[SIZE] = "the server", all[MAX_PEERS * SIZE];
    CHECK(rdma_sequential_alltoall(ctx, own, all, SIZE) == 0);
    together(ctx, 1, 0);
    int64_t sum = 0;
    for (int i = 0; i < MAX_PEERS; i++) {
        char last[SIZE];
        int64_t number;
        CHECK(rdma_recv(ctx, i, last, SIZE) == SIZE);
        CHECK(memcmp(last, all + i * SIZE, SIZE) == 0);
        memcpy(&number, last, sizeof number);
        sum += number;
    }
    CHECK(sum == (int64_t)MAX_PEERS * (MAX_PEERS + 1) / 2);
    for (int i = 0; i < MAX_PEERS; i++)
        pthread_join(threads[i], NULL);
    rdma_cleanup(ctx);
    puts("64 peers");
    return 0;
}
