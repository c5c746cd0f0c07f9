/* The benchmark of the first issue through libGeoIP's C interface: the original and our
 * libGeoIP.so.1 in one process, in turn, with their answers compared.
 *
 *   make bench-geoip
 *   geoip_drop_in OUR.so THEIR.so COUNTRY.dat FOLDER [ROUNDS]
 *
 * A city file of some 2.5 million networks is made in FOLDER. For each workload and combination of
 * flags a line says nanoseconds of processor time a lookup of both, the least of ROUNDS, and their
 * ratio; behind that, our lookups with reload checking against those without, and memory. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "whered_geoip.h"

typedef struct library {
    GeoIP *(*open)(const char *, int);
    void (*delete)(GeoIP *);
    int (*id_by_addr)(GeoIP *, const char *);
    int (*id_by_ipnum)(GeoIP *, unsigned long);
    GeoIPRecord *(*record_by_addr)(GeoIP *, const char *);
    void (*record_delete)(GeoIPRecord *);
    int (*fill)(GeoIP *, const char *, GeoIPRecord *, void *, size_t);
    size_t (*memory)(GeoIP *);
} library;

static void *symbol(void *handle, const char *name) {
    void *found = dlsym(handle, name);
    if (found == NULL) {
        fprintf(stderr, "there is no %s\n", name);
        exit(2);
    }
    return found;
}

static library load(const char *path, int is_ours) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    library made;
    made.open = symbol(handle, "GeoIP_open");
    made.delete = symbol(handle, "GeoIP_delete");
    made.id_by_addr = symbol(handle, "GeoIP_id_by_addr");
    made.id_by_ipnum = symbol(handle, "GeoIP_id_by_ipnum");
    made.record_by_addr = symbol(handle, "GeoIP_record_by_addr");
    made.record_delete = symbol(handle, "GeoIPRecord_delete");
    made.fill = is_ours ? symbol(handle, "whered_geoip_record_by_addr") : NULL;
    made.memory = is_ours ? symbol(handle, "whered_geoip_memory_bytes") : NULL;
    return made;
}

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* The city file: nodes of a random tree, and records behind it. */
enum { NODES = 2500000, RECORDS = 100000 };
static uint32_t tree[NODES + 65536][2];
static uint32_t node_count;

/* Each /9 has as many nodes as any other, as far as its random branches go. */
static uint32_t grow(int depth, int *budget) {
    uint32_t node = node_count++;
    int own = NODES / 512;
    if (depth == 9)
        budget = &own;
    for (int side = 0; side < 2; side++) {
        int splits = depth < 9;
        if (!splits && depth < 27 && *budget > 0 && next_random() % 100 < (depth < 16 ? 97 : 75)) {
            *budget -= 1;
            splits = 1;
        }
        tree[node][side] =
            splits ? grow(depth + 1, budget) : 0x80000000u | (next_random() % (RECORDS + 2000));
    }
    return node;
}

static void make_city(const char *path) {
    static uint32_t offsets[RECORDS];
    static uint8_t data[RECORDS * 64];
    uint32_t size = 1;
    for (int number = 0; number < RECORDS; number++) {
        offsets[number] = size;
        data[size++] = number % 3 == 0 ? 225 : 1 + next_random() % 250;
        size += sprintf((char *)data + size, "%02d", number % 97) + 1;
        int letters = 4 + next_random() % 14;
        for (int letter = 0; letter < letters; letter++)
            data[size++] = letter == 3 && number % 8 == 0 ? 0xe9 : 'a' + next_random() % 26;
        data[size++] = 0;
        if (number % 2 == 0)
            size += sprintf((char *)data + size, "%05d", number % 99999);
        data[size++] = 0;
        for (int bytes = 0; bytes < 6; bytes += 3) {
            uint32_t degrees = next_random() % 3600001;
            memcpy(data + size + bytes, &degrees, 3);
        }
        size += 6;
        if (number % 3 == 0) {
            uint32_t codes = next_random() % 999999;
            memcpy(data + size, &codes, 3);
            size += 3;
        }
    }
    grow(0, NULL);
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        exit(2);
    for (uint32_t node = 0; node < node_count; node++)
        for (int side = 0; side < 2; side++) {
            uint32_t number = tree[node][side];
            if (number & 0x80000000u) {
                number &= 0x7fffffff;
                number = node_count + (number < RECORDS ? offsets[number] : 0);
            }
            fwrite(&number, 3, 1, file);
        }
    fwrite(data, size, 1, file);
    fwrite("\0\0\0GEO-533 20261128 Build 1", 28, 1, file);
    fwrite("\xff\xff\xff\x02", 4, 1, file);
    fwrite(&node_count, 3, 1, file);
    fclose(file);
}

enum { TEXTS = 3000000 };
static char (*texts)[16];
static char four[4][16] = {"24.24.24.24", "80.24.24.80", "200.24.24.40", "68.24.24.46"};

typedef struct work {
    const char *name;
    int count;
    char (*texts)[16];
} work;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

enum { COUNTRY, CITY, CITY_FILLED };

/* A checksum of the answers; `ns` gets nanoseconds a lookup. */
static uint64_t run(library *lib, GeoIP *gi, work *work, int kind, int most, double *ns) {
    uint64_t sum = 0;
    char memory[256];
    int lookups = most < TEXTS ? most : TEXTS;
    double start = now();
    for (int at = 0, which = 0; at < lookups; at++, which++) {
        if (which == work->count)
            which = 0;
        const char *text = work->texts[which];
        if (kind == COUNTRY) {
            sum = sum * 31 + lib->id_by_addr(gi, text);
            continue;
        }
        GeoIPRecord own, *record = &own;
        if (kind == CITY)
            record = lib->record_by_addr(gi, text);
        else if (lib->fill(gi, text, &own, memory, sizeof memory) != 1)
            record = NULL;
        if (record == NULL)
            continue;
        sum = sum * 31 + record->country_code[0] + (record->city ? record->city[1] : 0);
        sum += (int64_t)(record->latitude * 1000) + record->metro_code;
        if (kind == CITY)
            lib->record_delete(record);
    }
    *ns = (now() - start) / lookups;
    return sum;
}

static const struct {
    const char *name;
    int flags;
} MODES[] = {{"STANDARD", 0}, {"CHECK", 2}, {"INDEX", 4}, {"INDEX+CHECK", 6}, {"MEMORY", 1},
             {"MEMORY+CHECK", 3}, {"MMAP", 8}, {"MMAP+CHECK", 10}};

/* Our lookups with and without reload checking, in turn. */
static void compare_checking(library *ours, const char **files, work *works, int rounds) {
    static const char *kinds[] = {"country", "city", "city filled"};
    printf("%-12s %-12s %-13s %10s %10s %8s\n", "records", "addresses", "flags", "checked ns",
           "plain ns", "ratio");
    for (int kind = COUNTRY; kind <= CITY_FILLED; kind++)
        for (int flags = 0; flags < 2; flags++) {
            GeoIP *handles[2] = {ours->open(files[kind], flags | 2), ours->open(files[kind], flags)};
            if (handles[0] == NULL || handles[1] == NULL)
                exit(2);
            for (int which = 0; which < 2; which++) {
                double best[2] = {1e18, 1e18}, ns;
                for (int round = 0; round < 2 * rounds; round++)
                    for (int side = 0; side < 2; side++) {
                        run(ours, handles[side], &works[which], kind, flags ? TEXTS : 200000, &ns);
                        best[side] = ns < best[side] ? ns : best[side];
                    }
                printf("%-12s %-12s %-13s %10.1f %10.1f %8.3f\n", kinds[kind], works[which].name,
                       flags ? "MEMORY" : "STANDARD", best[0], best[1], best[0] / best[1]);
            }
            ours->delete(handles[0]);
            ours->delete(handles[1]);
        }
}

int main(int count, char **arguments) {
    if (count < 5) {
        fprintf(stderr, "geoip_drop_in OUR.so THEIR.so COUNTRY.dat FOLDER [ROUNDS]\n");
        return 2;
    }
    library ours = load(arguments[1], 1), theirs = load(arguments[2], 0);
    int rounds = count > 5 ? atoi(arguments[5]) : 5;
    char city[4096];
    snprintf(city, sizeof city, "%s/city.dat", arguments[4]);
    make_city(city);
    texts = malloc(sizeof(*texts) * TEXTS);
    for (int at = 0; at < TEXTS; at++) {
        uint32_t number = next_random() >> 16;
        snprintf(texts[at], 16, "%u.%u.%u.%u", number >> 24, number >> 16 & 255, number >> 8 & 255,
                 number & 255);
    }
    work works[] = {{"4 addresses", 4, four}, {"3 M random", TEXTS, texts}};
    const char *files[] = {arguments[3], city, city};
    const char *kinds[] = {"country", "city", "city filled"};
    printf("%-12s %-12s %-13s %10s %10s %8s\n", "records", "addresses", "flags", "original ns",
           "ours ns", "ratio");
    for (int kind = COUNTRY; kind <= CITY_FILLED; kind++)
        for (size_t mode = 0; mode < sizeof MODES / sizeof *MODES; mode++) {
            struct mallinfo2 before = mallinfo2();
            double opened = now();
            GeoIP *mine = ours.open(files[kind], MODES[mode].flags);
            opened = now() - opened;
            struct mallinfo2 after = mallinfo2();
            GeoIP *original = theirs.open(files[kind], MODES[mode].flags);
            if (mine == NULL || original == NULL)
                return 2;
            for (size_t which = 0; which < 2; which++) {
                int slow = (MODES[mode].flags & 9) == 0;
                int most = slow ? 200000 : TEXTS;
                double best[2] = {1e18, 1e18}, ns;
                for (int round = 0; round < rounds; round++) {
                    uint64_t sums[2];
                    sums[0] = run(&theirs, original, &works[which], kind == CITY_FILLED ? CITY : kind,
                                  most, &ns);
                    best[0] = ns < best[0] ? ns : best[0];
                    sums[1] = run(&ours, mine, &works[which], kind, most, &ns);
                    best[1] = ns < best[1] ? ns : best[1];
                    if (sums[0] != sums[1]) {
                        fprintf(stderr, "the answers differ\n");
                        return 1;
                    }
                }
                printf("%-12s %-12s %-13s %10.1f %10.1f %8.2f\n", kinds[kind], works[which].name,
                       MODES[mode].name, best[0], best[1], best[0] / best[1]);
                fflush(stdout);
            }
            if (MODES[mode].flags == 1)
                printf("  file %ld bytes, ours in memory %zu (malloc %ld), opened in %.0f ms\n",
                       (long)mine->size, ours.memory(mine),
                       (long)(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd),
                       opened / 1e6);
            ours.delete(mine);
            theirs.delete(original);
        }
    compare_checking(&ours, files, works, rounds);
    return 0;
}
