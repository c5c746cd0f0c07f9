/* Two libraries with the same functions, loaded side by side from files named by the caller.
 *
 * For the test programs beside it; included once by each. */

#ifndef WHERED_LIBRARIES_H
#define WHERED_LIBRARIES_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <maxminddb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct library {
    const char *name;
    int (*open)(const char *, uint32_t, MMDB_s *);
    MMDB_lookup_result_s (*lookup_string)(const MMDB_s *, const char *, int *, int *);
    MMDB_lookup_result_s (*lookup_sockaddr)(const MMDB_s *, const struct sockaddr *, int *);
    int (*read_node)(const MMDB_s *, uint32_t, MMDB_search_node_s *);
    int (*get_value)(MMDB_entry_s *, MMDB_entry_data_s *, ...);
    int (*vget_value)(MMDB_entry_s *, MMDB_entry_data_s *, va_list);
    int (*aget_value)(MMDB_entry_s *, MMDB_entry_data_s *, const char *const *);
    int (*get_metadata_as_entry_data_list)(const MMDB_s *, MMDB_entry_data_list_s **);
    int (*get_entry_data_list)(MMDB_entry_s *, MMDB_entry_data_list_s **);
    void (*free_entry_data_list)(MMDB_entry_data_list_s *);
    void (*close)(MMDB_s *);
    const char *(*lib_version)(void);
    int (*dump_entry_data_list)(FILE *, MMDB_entry_data_list_s *, int);
    const char *(*strerror)(int);
} library;

static void *symbol_of(void *handle, const char *library, const char *name) {
    void *symbol = dlsym(handle, name);
    if (symbol == NULL) {
        fprintf(stderr, "%s has no %s\n", library, name);
        exit(2);
    }
    return symbol;
}

static library load(const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    library it = {.name = path};
#define TAKE(field) *(void **)&it.field = symbol_of(handle, path, "MMDB_" #field)
    TAKE(open);
    TAKE(lookup_string);
    TAKE(lookup_sockaddr);
    TAKE(read_node);
    TAKE(get_value);
    TAKE(vget_value);
    TAKE(aget_value);
    TAKE(get_metadata_as_entry_data_list);
    TAKE(get_entry_data_list);
    TAKE(free_entry_data_list);
    TAKE(close);
    TAKE(lib_version);
    TAKE(dump_entry_data_list);
    TAKE(strerror);
#undef TAKE
    return it;
}

/* splitmix64: the same addresses in every run. */
static inline uint64_t next_random(uint64_t *state) {
    uint64_t mixed = (*state += 0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
}

static inline struct sockaddr_in ipv4(uint32_t address) {
    struct sockaddr_in it = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    return it;
}

static inline struct sockaddr_in6 ipv6(const uint8_t address[16]) {
    struct sockaddr_in6 it = {.sin6_family = AF_INET6};
    memcpy(&it.sin6_addr, address, 16);
    return it;
}

#endif
