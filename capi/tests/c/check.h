/* Checks of the test programs: a failed one says where it is, and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, LAST_ERROR());           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The call fails with -1 or NULL, and a text that has these words. */
#define FAILS(what, words)                                                                         \
    do {                                                                                           \
        CHECK((intptr_t)(what) == FAILED(what));                                                   \
        if (strstr(LAST_ERROR(), words) == NULL) {                                                 \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, LAST_ERROR());           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* NULL where the call returns a pointer, and -1 elsewhere. */
#define FAILED(what)                                                                               \
    _Generic((what), int: -1, ptrdiff_t: -1, default: 0)

#endif
