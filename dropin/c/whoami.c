/* Says what kind of process it is: whether rseq is on, and whether LIBRARY is loaded. Also built statically.
 *
 *     whoami LIBRARY      prints "rseq on|off library loaded|absent" */
#include "check.h"

#include <sys/rseq.h>

/* Looks for a word in /proc/self/maps, which names every loaded file. */
static int is_mapped(const char *word) {
    char line[1024];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "cannot open /proc/self/maps: errno %d", errno);
    while (!found && fgets(line, sizeof line, maps))
        found = strstr(line, word) != NULL;
    fclose(maps);
    return found;
}

int main(int count, char **arguments) {
    CHECK(count == 2, "usage: whoami LIBRARY");
    void *block = malloc(1000);
    CHECK(block != NULL, "malloc failed with errno %d", errno);
    fill(block, 1000, 1);
    printf("rseq %s library %s\n", __rseq_size > 0 ? "on" : "off", is_mapped(arguments[1]) ? "loaded" : "absent");
    free(block);
    return 0;
}
