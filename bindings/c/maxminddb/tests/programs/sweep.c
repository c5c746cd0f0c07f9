/* sweep LIBRARY FILE FIRST: what a library makes of a file with one fault, for each fault in turn.
 *
 * Faults number 0 to 2n-1 change byte number/2 of the n bytes (all bits, or the lowest), the next n
 * cut the file to number-2n bytes. For each fault from FIRST on, a line: its number, the status of
 * MMDB_open, and for each address the lookup, the list with a checksum of its printed form, and the
 * values at some paths. A library that dies or hangs ends the program there; the caller goes on
 * behind it. */

#include "libraries.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SECONDS_FOR_A_FAULT = 5 };

static library it;

static uint32_t checksum(const char *text, size_t size) {
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < size; i++) {
        sum = (sum ^ (uint8_t)text[i]) * 16777619u;
    }
    return sum;
}

static void show_record(MMDB_entry_s *entry) {
    MMDB_entry_data_list_s *list = NULL;
    int status = it.get_entry_data_list(entry, &list);
    printf(" list=%d", status);
    if (status == MMDB_SUCCESS) {
        char *text = NULL;
        size_t size = 0;
        FILE *stream = open_memstream(&text, &size);
        int printed = it.dump_entry_data_list(stream, list, 0);
        fclose(stream);
        printf(" dump=%d,%08x", printed, checksum(text, size));
        free(text);
    }
    it.free_entry_data_list(list);
    static const char *const paths[][4] = {
        {NULL}, {"ip", NULL}, {"array", "1", NULL}, {"map", "mapX", "arrayX", NULL},
        {"map1", "map2", "array", NULL}, {"uint128", NULL}, {"boolean", NULL}, {"double", NULL}};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        MMDB_entry_data_s data;
        status = it.aget_value(entry, &data, paths[i]);
        printf(" get=%d", status);
        if (status == MMDB_SUCCESS) {
            printf(",%u,%u", data.type, data.offset);
        }
    }
}

static void show(const char *path) {
    static const char *const addresses[] = {"1.1.1.1",     "1.1.1.3",   "1.1.1.32", "255.255.255.255",
                                            "2001:db8::1", "::1.1.1.2", "::2:0:41"};
    MMDB_s database;
    int status = it.open(path, 0, &database);
    printf("open=%d", status);
    if (status != MMDB_SUCCESS) {
        return;
    }
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        int gai;
        MMDB_lookup_result_s result = it.lookup_string(&database, addresses[i], &gai, &status);
        printf(" lookup=%d", status);
        if (status == MMDB_SUCCESS) {
            printf(",%d,%d", result.found_entry, result.netmask);
        }
        if (status == MMDB_SUCCESS && result.found_entry) {
            printf(",%u", result.entry.offset);
            show_record(&result.entry);
        }
    }
    it.close(&database);
}

int main(int count, char **arguments) {
    if (count != 4) {
        fprintf(stderr, "usage: sweep LIBRARY FILE FIRST\n");
        return 2;
    }
    it = load(arguments[1]);
    FILE *file = fopen(arguments[2], "rb");
    static uint8_t original[1 << 20];
    size_t size = fread(original, 1, sizeof(original), file);
    fclose(file);
    int copy = memfd_create("copy", 0);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", copy);
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    for (size_t number = strtoul(arguments[3], NULL, 10); number < 3 * size; number++) {
        alarm(SECONDS_FOR_A_FAULT);
        if (ftruncate(copy, 0) != 0 || pwrite(copy, original, size, 0) != (ssize_t)size) {
            return 2;
        }
        if (number < 2 * size) {
            uint8_t changed = original[number / 2] ^ (number % 2 ? 1 : 255);
            if (pwrite(copy, &changed, 1, (off_t)(number / 2)) != 1) {
                return 2;
            }
        } else if (ftruncate(copy, (off_t)(number - 2 * size)) != 0) {
            return 2;
        }
        printf("%zu ", number);
        show(path);
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
