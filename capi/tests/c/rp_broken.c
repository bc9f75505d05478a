/*
 * A program that writes, a byte at a time, to one that is killed. That is an error of a write, and no
 * SIGPIPE, which would end it. Gets the address that the other prints.
 */
#include "ringpost.h"

#define LAST_ERROR rp_last_error
#include "check.h"

static void read_on(void) {
    rp_node *node = rp_node_start("reader", "127.0.0.1:0");
    CHECK(node != NULL);
    rp_listener *listener = rp_stream_listen(node, "bytes");
    char address[64], data[4096];
    CHECK(listener != NULL && rp_node_address(node, address, sizeof address) > 0);
    puts(address);
    fflush(stdout);
    rp_stream *stream = rp_stream_accept(listener, -1);
    CHECK(stream != NULL);
    while (rp_stream_read(stream, data, sizeof data, -1) > 0) {
    }
}

int main(int argc, char **argv) {
    if (argc == 1) {
        read_on();
        return 0;
    }
    rp_node *node = rp_node_client(argv[1], NULL, 0);
    CHECK(node != NULL);
    rp_stream *stream = rp_stream_connect(node, "reader/bytes");
    CHECK(stream != NULL);
    for (long written = 0; rp_stream_write(stream, "x", 1) == 0; written++) {
        if (written == 1000) {
            puts("writing");
            fflush(stdout);
        }
    }
    CHECK(strlen(rp_last_error()) > 0);
    puts("told");
    return 0;
}
