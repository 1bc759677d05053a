/*
 * What is watched: holds so many MiB in large blocks and so many objects of 64 bytes, has a cache and a group where there is a library that has such, and comes
 * along the library's slow paths each time so many milliseconds have passed. It ends in an orderly way when standard input does.
 *
 * held MIB OBJECTS MILLISECONDS
 */
#include <commensal.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma weak cm_cache_create
#pragma weak cm_cache_alloc
#pragma weak cm_group_create
#pragma weak cm_group_enter
#pragma weak cm_group_leave

enum { MIB = 1 << 20, BYTES = 64, AT_ONCE = 2000 };

static void *hold(size_t bytes) {
    void *block = malloc(bytes);
    if (block == NULL)
        exit(1);
    memset(block, 1, bytes);
    return block;
}

static void come_along(void) {
    static void *objects[AT_ONCE];
    for (int number = 0; number < AT_ONCE; number++)
        objects[number] = hold(200);
    for (int number = 0; number < AT_ONCE; number++)
        free(objects[number]);
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    for (long blocks = atol(argv[1]); blocks > 0; blocks--)
        hold(MIB);
    for (long objects = atol(argv[2]); objects > 0; objects--)
        hold(BYTES);
    if (cm_group_create != NULL) {
        cm_cache *cache = cm_cache_create("orders", 300, 0, NULL);
        cm_group *group = cm_group_create("tenant", NULL, MIB);
        cm_group_entry entry;
        if (cache == NULL || group == NULL || cm_cache_alloc(cache) == NULL
            || cm_group_enter(group, &entry) != 0)
            return 1;
        hold(100000);
        cm_group_leave(&entry);
    }
    puts("ready");
    fflush(stdout);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (poll(&input, 1, atoi(argv[3])) == 0)
        come_along();
    return 0;
}
