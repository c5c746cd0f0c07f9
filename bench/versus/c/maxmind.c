/*
 * Lookups through the interface of libmaxminddb.
 *
 * The library is opened by name, and its functions are called through pointers, as a dynamically
 * linked program calls them. So the original and a drop-in for it stand side by side in one
 * program, each with its own functions and its own open file.
 *
 * One function runs one task over many addresses. Each combination of input and wants is a loop of
 * its own: the `static inline` parts below get constants and fold away.
 */

#define _GNU_SOURCE
#include "checksum.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <maxminddb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

struct maxmind {
    void *library;
    MMDB_s database;
    int (*open)(const char *const, uint32_t, MMDB_s *const);
    void (*close)(MMDB_s *const);
    const char *(*strerror)(const int);
    const char *(*version)(void);
    MMDB_lookup_result_s (*lookup_sockaddr)(const MMDB_s *const, const struct sockaddr *const,
                                            int *const);
    MMDB_lookup_result_s (*lookup_string)(const MMDB_s *const, const char *const, int *const,
                                          int *const);
    int (*get_value)(MMDB_entry_s *const, MMDB_entry_data_s *const, ...);
    int (*aget_value)(MMDB_entry_s *const, MMDB_entry_data_s *const, const char *const *const);
};

enum input { INPUT_V4, INPUT_V6, INPUT_STRING4, INPUT_STRING6, INPUT_PTON4, INPUT_PTON6 };
enum wants { WANTS_RECORD, WANTS_GET_VALUE, WANTS_AGET_VALUE };

struct job {
    const uint32_t *v4;
    const unsigned char (*v6)[16]; /* little-endian */
    const char *texts;             /* each ends with a zero byte */
    const uint32_t *starts;
    size_t count;
};

static void *function(struct maxmind *maxmind, const char *name, char *message, size_t size) {
    void *found = maxmind->library ? dlsym(maxmind->library, name) : NULL;
    if (!found && !message[0]) {
        snprintf(message, size, "%s: %s", name, dlerror());
    }
    return found;
}

void maxmind_close(struct maxmind *maxmind) {
    if (maxmind->close) {
        maxmind->close(&maxmind->database);
    }
    if (maxmind->library) {
        dlclose(maxmind->library);
    }
    free(maxmind);
}

/* Opens `file` with MMDB_MODE_MMAP; `mode` becomes WHERED_MMDB meanwhile. */
struct maxmind *maxmind_open(const char *library, const char *file, const char *mode,
                             char *message, size_t size) {
    struct maxmind *m = calloc(1, sizeof *m);
    message[0] = 0;
    if (!m) {
        snprintf(message, size, "no memory");
        return NULL;
    }
    m->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!m->library) {
        snprintf(message, size, "%s", dlerror());
        free(m);
        return NULL;
    }
    m->open = function(m, "MMDB_open", message, size);
    m->strerror = function(m, "MMDB_strerror", message, size);
    m->version = function(m, "MMDB_lib_version", message, size);
    m->lookup_sockaddr = function(m, "MMDB_lookup_sockaddr", message, size);
    m->lookup_string = function(m, "MMDB_lookup_string", message, size);
    m->get_value = function(m, "MMDB_get_value", message, size);
    m->aget_value = function(m, "MMDB_aget_value", message, size);
    void (*close)(MMDB_s *const) = function(m, "MMDB_close", message, size);
    if (message[0]) {
        maxmind_close(m);
        return NULL;
    }
    if (mode) {
        setenv("WHERED_MMDB", mode, 1);
    }
    int status = m->open(file, MMDB_MODE_MMAP, &m->database);
    unsetenv("WHERED_MMDB");
    if (status != MMDB_SUCCESS) {
        snprintf(message, size, "%s: %s", file, m->strerror(status));
        maxmind_close(m);
        return NULL;
    }
    m->close = close;
    return m;
}

const char *maxmind_version(const struct maxmind *maxmind) {
    return maxmind->version();
}

static inline MMDB_lookup_result_s find4(const struct maxmind *m, uint32_t network_order,
                                         int *error) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = network_order;
    return m->lookup_sockaddr(&m->database, (const struct sockaddr *)&address, error);
}

static inline MMDB_lookup_result_s find6(const struct maxmind *m, const struct in6_addr *bytes,
                                         int *error) {
    struct sockaddr_in6 address = {.sin6_family = AF_INET6};
    address.sin6_addr = *bytes;
    return m->lookup_sockaddr(&m->database, (const struct sockaddr *)&address, error);
}

static inline MMDB_lookup_result_s find(const struct maxmind *m, const struct job *job,
                                        enum input input, size_t i, int *error) {
    struct in6_addr bytes;
    struct in_addr bytes4;
    int text_error = 0;
    MMDB_lookup_result_s result = {0};
    switch (input) {
    case INPUT_V4:
        return find4(m, htonl(job->v4[i]), error);
    case INPUT_V6: {
        uint64_t halves[2];
        memcpy(halves, job->v6[i], 16);
        uint64_t network[2] = {__builtin_bswap64(halves[1]), __builtin_bswap64(halves[0])};
        memcpy(&bytes, network, 16);
        return find6(m, &bytes, error);
    }
    case INPUT_STRING4:
    case INPUT_STRING6:
        result = m->lookup_string(&m->database, job->texts + job->starts[i], &text_error, error);
        *error |= text_error;
        return result;
    case INPUT_PTON4:
        if (inet_pton(AF_INET, job->texts + job->starts[i], &bytes4) == 1) {
            return find4(m, bytes4.s_addr, error);
        }
        break;
    case INPUT_PTON6:
        if (inet_pton(AF_INET6, job->texts + job->starts[i], &bytes) == 1) {
            return find6(m, &bytes, error);
        }
        break;
    }
    *error = -1;
    return result;
}

static inline uint64_t text_of(int status, const MMDB_entry_data_s *data, enum octets octets) {
    int is_text = status == MMDB_SUCCESS && data->has_data && data->type == MMDB_DATA_TYPE_UTF8_STRING;
    return is_text ? word_of_text(data->utf8_string, data->data_size, octets) : 0;
}

static inline double number_of(int status, const MMDB_entry_data_s *data) {
    int is_number = status == MMDB_SUCCESS && data->has_data && data->type == MMDB_DATA_TYPE_DOUBLE;
    return is_number ? data->double_value : absent_number();
}

static const char *const country_path[] = {"country", "iso_code", NULL};
static const char *const city_path[] = {"city", "names", "en", NULL};
static const char *const latitude_path[] = {"location", "latitude", NULL};
static const char *const longitude_path[] = {"location", "longitude", NULL};

static inline uint64_t fields_of(const struct maxmind *m, MMDB_entry_s *entry, enum wants wants,
                                 enum octets octets) {
    MMDB_entry_data_s data;
    int status;
    int is_array = wants == WANTS_AGET_VALUE;
    status = is_array ? m->aget_value(entry, &data, country_path)
                      : m->get_value(entry, &data, "country", "iso_code", NULL);
    uint64_t country = text_of(status, &data, octets);
    status = is_array ? m->aget_value(entry, &data, city_path)
                      : m->get_value(entry, &data, "city", "names", "en", NULL);
    uint64_t city = text_of(status, &data, octets);
    status = is_array ? m->aget_value(entry, &data, latitude_path)
                      : m->get_value(entry, &data, "location", "latitude", NULL);
    double latitude = number_of(status, &data);
    status = is_array ? m->aget_value(entry, &data, longitude_path)
                      : m->get_value(entry, &data, "location", "longitude", NULL);
    double longitude = number_of(status, &data);
    return share_of_fields(country, city, latitude, longitude);
}

static inline int run(const struct maxmind *m, const struct job *job, enum input input,
                      enum wants wants, enum octets octets, uint64_t *sum) {
    int error = MMDB_SUCCESS;
    for (size_t i = 0; i < job->count; i++) {
        MMDB_lookup_result_s found = find(m, job, input, i, &error);
        if (error != MMDB_SUCCESS) {
            return error;
        }
        if (wants == WANTS_RECORD) {
            *sum += share_of_record(found.found_entry, found.entry.offset);
        } else if (found.found_entry) {
            *sum += fields_of(m, &found.entry, wants, octets);
        } else {
            *sum += share_of_fields(0, 0, absent_number(), absent_number());
        }
    }
    return MMDB_SUCCESS;
}

#define WITH_OCTETS(INPUT, WANTS)                                                                  \
    return octets == OCTETS_ALL ? run(maxmind, job, INPUT, WANTS, OCTETS_ALL, sum)                 \
                                : run(maxmind, job, INPUT, WANTS, OCTETS_ENDS, sum);

#define WANTS_OF(INPUT)                                                                            \
    case INPUT:                                                                                    \
        switch (wants) {                                                                           \
        case WANTS_RECORD: return run(maxmind, job, INPUT, WANTS_RECORD, OCTETS_ENDS, sum);        \
        case WANTS_GET_VALUE: WITH_OCTETS(INPUT, WANTS_GET_VALUE)                                  \
        case WANTS_AGET_VALUE: WITH_OCTETS(INPUT, WANTS_AGET_VALUE)                                \
        }                                                                                          \
        break;

/* The sum of the shares of all addresses of the job; a status of libmaxminddb. */
int maxmind_run(const struct maxmind *maxmind, const struct job *job, int input, int wants,
                int octets, uint64_t *sum) {
    *sum = 0;
    switch (input) {
        WANTS_OF(INPUT_V4)
        WANTS_OF(INPUT_V6)
        WANTS_OF(INPUT_STRING4)
        WANTS_OF(INPUT_STRING6)
        WANTS_OF(INPUT_PTON4)
        WANTS_OF(INPUT_PTON6)
    }
    return -1;
}
