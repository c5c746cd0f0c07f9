/*
 * DPDK's tables: rte_fib (DIR-24-8) and rte_fib6 (trie) with their AVX-512 lookups, rte_lpm.
 *
 * The environment runs without devices, telemetry or shared files. Memory is anonymous; with
 * `huge` the kernel is told to back it with huge pages (or hugetlbfs is taken where pages are
 * reserved), as our own tables are.
 */

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm.h>
#include <rte_memory.h>
#include <rte_vect.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { BATCH = 64 };

static int advise(const struct rte_memseg_list *list, const struct rte_memseg *segment, void *unused) {
    (void)list;
    (void)unused;
    madvise(segment->addr, segment->len, MADV_HUGEPAGE);
    return 0;
}

static int advise_list(const struct rte_memseg_list *list, void *unused) {
    (void)unused;
    madvise(list->base_va, list->len, MADV_HUGEPAGE);
    return 0;
}

/* 0, or -1. `megabytes` are reserved as address space and used as needed. */
int dpdk_start(int huge, int megabytes) {
    char memory[16];
    snprintf(memory, sizeof memory, "%d", megabytes);
    char *arguments[] = {"versus",      "--no-pci",       "--no-huge", "-m",
                         memory,        "--no-telemetry", "--no-shconf", "--log-level=lib.eal:error",
                         "--force-max-simd-bitwidth=512", "--no-hpet", NULL};
    int count = (int)(sizeof arguments / sizeof *arguments) - 1;
    if (rte_eal_init(count, arguments) < 0) return -1;
    if (huge) {
        rte_memseg_list_walk(advise_list, NULL);
        rte_memseg_walk(advise, NULL);
    }
    return 0;
}

const char *dpdk_version(void) {
    extern const char *rte_version(void);
    return rte_version();
}

/* ---- rte_fib ---- */

/* `width` is log2 of the bytes of a next hop; `vector` asks for AVX-512 and fails without. */
struct rte_fib *dpdk_fib_new(const char *name, int routes, int width, uint32_t groups, int vector) {
    struct rte_fib_conf conf;
    memset(&conf, 0, sizeof conf);
    conf.type = RTE_FIB_DIR24_8;
    conf.max_routes = routes;
    conf.dir24_8.nh_sz = (enum rte_fib_dir24_8_nh_sz)width;
    conf.dir24_8.num_tbl8 = groups;
    struct rte_fib *fib = rte_fib_create(name, SOCKET_ID_ANY, &conf);
    if (fib == NULL) return NULL;
    if (vector && rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512) != 0) {
        rte_fib_free(fib);
        return NULL;
    }
    return fib;
}

int dpdk_fib_add(struct rte_fib *fib, uint32_t address, uint8_t length_bits, uint64_t hop) {
    return rte_fib_add(fib, address, length_bits, hop);
}

void dpdk_fib_free(struct rte_fib *fib) {
    rte_fib_free(fib);
}

uint64_t dpdk_fib_run(struct rte_fib *fib, uint32_t *addresses, size_t count) {
    uint64_t hops[BATCH], sum = 0;
    for (size_t start = 0; start < count; start += BATCH) {
        size_t batch = count - start < BATCH ? count - start : BATCH;
        rte_fib_lookup_bulk(fib, addresses + start, hops, (int)batch);
        for (size_t i = 0; i < batch; i++) sum += hops[i] * (2 * (start + i) + 1);
    }
    return sum;
}

/* ---- rte_fib6 ---- */

struct rte_fib6 *dpdk_fib6_new(const char *name, int routes, int width, uint32_t groups, int vector) {
    struct rte_fib6_conf conf;
    memset(&conf, 0, sizeof conf);
    conf.type = RTE_FIB6_TRIE;
    conf.max_routes = routes;
    conf.trie.nh_sz = (enum rte_fib_trie_nh_sz)width;
    conf.trie.num_tbl8 = groups;
    struct rte_fib6 *fib = rte_fib6_create(name, SOCKET_ID_ANY, &conf);
    if (fib == NULL) return NULL;
    if (vector && rte_fib6_select_lookup(fib, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512) != 0) {
        rte_fib6_free(fib);
        return NULL;
    }
    return fib;
}

int dpdk_fib6_add(struct rte_fib6 *fib, const uint8_t *address, uint8_t length_bits, uint64_t hop) {
    return rte_fib6_add(fib, address, length_bits, hop);
}

void dpdk_fib6_free(struct rte_fib6 *fib) {
    rte_fib6_free(fib);
}

uint64_t dpdk_fib6_run(struct rte_fib6 *fib, uint8_t (*addresses)[16], size_t count) {
    uint64_t hops[BATCH], sum = 0;
    for (size_t start = 0; start < count; start += BATCH) {
        size_t batch = count - start < BATCH ? count - start : BATCH;
        rte_fib6_lookup_bulk(fib, addresses + start, hops, (int)batch);
        for (size_t i = 0; i < batch; i++) sum += hops[i] * (2 * (start + i) + 1);
    }
    return sum;
}

/* ---- rte_lpm ---- */

struct rte_lpm *dpdk_lpm_new(const char *name, uint32_t rules, uint32_t groups) {
    struct rte_lpm_config config = {.max_rules = rules, .number_tbl8s = groups, .flags = 0};
    return rte_lpm_create(name, SOCKET_ID_ANY, &config);
}

int dpdk_lpm_add(struct rte_lpm *lpm, uint32_t address, uint8_t length_bits, uint32_t hop) {
    return rte_lpm_add(lpm, address, length_bits, hop);
}

void dpdk_lpm_free(struct rte_lpm *lpm) {
    rte_lpm_free(lpm);
}

uint64_t dpdk_lpm_run(const struct rte_lpm *lpm, const uint32_t *addresses, size_t count) {
    uint32_t hops[BATCH];
    uint64_t sum = 0;
    for (size_t start = 0; start < count; start += BATCH) {
        size_t batch = count - start < BATCH ? count - start : BATCH;
        rte_lpm_lookup_bulk(lpm, addresses + start, hops, (unsigned)batch);
        for (size_t i = 0; i < batch; i++) {
            uint64_t hop = hops[i] & RTE_LPM_LOOKUP_SUCCESS ? hops[i] & 0x00ffffff : 0;
            sum += hop * (2 * (start + i) + 1);
        }
    }
    return sum;
}
