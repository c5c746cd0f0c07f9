/* versus OURS THEIRS FILE [COUNT] [ROUNDS]: user CPU time of both libraries for the same questions.
 *
 * Interleaved: in each round each library answers all questions of one kind, ours and theirs in
 * turn; the least time of all rounds counts. Each answer goes into a checksum, and the two must be
 * equal. Questions: addresses drawn uniformly, and drawn from the file's own networks (first a
 * network, then an address in it), which makes long prefixes frequent. */

#include "libraries.h"
#include <sys/resource.h>

typedef struct network {
    uint8_t address[16];
    uint8_t length;
} network;

static library libraries[2];
static MMDB_s databases[2];
static network *networks[2]; /* of IPv4 (as ::/96) and of IPv6 */
static size_t network_count[2], network_room[2];
static struct sockaddr_in6 *questions;
static size_t question_count = 1000000;

static double user_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
}

static void keep(const uint8_t *address, int length) {
    static const uint8_t zeros[12];
    int is_ipv6 = memcmp(address, zeros, 12) != 0;
    if (!is_ipv6 && length < 96) {
        return;
    }
    if (network_count[is_ipv6] == network_room[is_ipv6]) {
        network_room[is_ipv6] = network_room[is_ipv6] * 2 + 1024;
        networks[is_ipv6] = realloc(networks[is_ipv6], network_room[is_ipv6] * sizeof(network));
    }
    network *to = &networks[is_ipv6][network_count[is_ipv6]++];
    memcpy(to->address, address, 16);
    to->length = (uint8_t)length;
}

/* The networks with records; the ranges that lead back to IPv4 are left out. */
static void collect(uint32_t number, uint8_t *address, int depth) {
    MMDB_search_node_s node;
    if (depth > 0 && number == databases[1].ipv4_start_node.node_value && depth != 96) {
        return;
    }
    if (depth == 96 && memcmp(address, (uint8_t[12]){0}, 12) != 0 &&
        number == databases[1].ipv4_start_node.node_value) {
        return;
    }
    libraries[1].read_node(&databases[1], number, &node);
    for (int side = 0; side < 2; side++) {
        uint8_t bit = (uint8_t)(128 >> depth % 8);
        address[depth / 8] = (uint8_t)((address[depth / 8] & ~bit) | (side ? bit : 0));
        uint8_t type = side ? node.right_record_type : node.left_record_type;
        if (type == MMDB_RECORD_TYPE_SEARCH_NODE) {
            collect((uint32_t)(side ? node.right_record : node.left_record), address, depth + 1);
        } else if (type == MMDB_RECORD_TYPE_DATA) {
            keep(address, depth + 1);
        }
        address[depth / 8] &= (uint8_t)~bit;
    }
}

static void put(size_t at, const uint8_t *address, int is_ipv6) {
    if (is_ipv6) {
        questions[at] = ipv6(address);
    } else {
        uint32_t number;
        memcpy(&number, address + 12, 4);
        *(struct sockaddr_in *)&questions[at] = ipv4(ntohl(number));
    }
}

static void draw_uniform(uint64_t *state) {
    for (size_t i = 0; i < question_count; i++) {
        uint8_t address[16] = {0};
        uint32_t number = (uint32_t)next_random(state);
        memcpy(address + 12, &number, 4);
        put(i, address, 0);
    }
}

static void draw_networks(uint64_t *state, int is_ipv6) {
    for (size_t i = 0; i < question_count; i++) {
        network it = networks[is_ipv6][next_random(state) % network_count[is_ipv6]];
        uint64_t random[2] = {next_random(state), next_random(state)};
        for (int bit = it.length; bit < 128; bit++) {
            if (((uint8_t *)random)[bit / 8] & (128 >> bit % 8)) {
                it.address[bit / 8] |= (uint8_t)(128 >> bit % 8);
            }
        }
        put(i, it.address, is_ipv6);
    }
}

static uint64_t ask_lookups(const library *it, const MMDB_s *database) {
    uint64_t sum = 0;
    for (size_t i = 0; i < question_count; i++) {
        int status;
        MMDB_lookup_result_s result =
            it->lookup_sockaddr(database, (struct sockaddr *)&questions[i], &status);
        sum = sum * 31 + result.entry.offset + result.netmask;
    }
    return sum;
}

static uint64_t value(const MMDB_entry_data_s *data, int status) {
    if (status != MMDB_SUCCESS) {
        return (uint64_t)status;
    }
    if (data->type == MMDB_DATA_TYPE_UTF8_STRING) {
        return (uint64_t)data->utf8_string[0] + data->data_size;
    }
    uint64_t bits;
    memcpy(&bits, &data->double_value, 8);
    return bits;
}

static uint64_t ask_fields(const library *it, const MMDB_s *database) {
    uint64_t sum = 0;
    for (size_t i = 0; i < question_count; i++) {
        int status;
        MMDB_lookup_result_s result =
            it->lookup_sockaddr(database, (struct sockaddr *)&questions[i], &status);
        if (!result.found_entry) {
            continue;
        }
        MMDB_entry_data_s data;
        status = it->get_value(&result.entry, &data, "country", "iso_code", NULL);
        sum = sum * 31 + value(&data, status);
        status = it->get_value(&result.entry, &data, "city", "names", "en", NULL);
        sum = sum * 31 + value(&data, status);
        status = it->get_value(&result.entry, &data, "location", "latitude", NULL);
        sum = sum * 31 + value(&data, status);
        status = it->get_value(&result.entry, &data, "location", "longitude", NULL);
        sum = sum * 31 + value(&data, status);
    }
    return sum;
}

static int measure(const char *name, int rounds,
                   uint64_t (*ask)(const library *, const MMDB_s *)) {
    double least[2] = {1e9, 1e9};
    uint64_t sums[2] = {0, 0};
    for (int round = 0; round < rounds; round++) {
        for (int which = 0; which < 2; which++) {
            double before = user_seconds();
            sums[which] = ask(&libraries[which], &databases[which]);
            double took = user_seconds() - before;
            least[which] = took < least[which] ? took : least[which];
        }
    }
    double to_ns = 1e9 / (double)question_count;
    printf("%-34s %8.1f ns %8.1f ns %6.2fx%s\n", name, least[0] * to_ns, least[1] * to_ns,
           least[1] / least[0], sums[0] == sums[1] ? "" : "  DIFFERENT ANSWERS");
    return sums[0] != sums[1];
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: versus OURS THEIRS FILE [COUNT] [ROUNDS]\n");
        return 2;
    }
    if (count > 4) {
        question_count = strtoul(arguments[4], NULL, 10);
    }
    int rounds = count > 5 ? atoi(arguments[5]) : 5;
    for (int which = 0; which < 2; which++) {
        libraries[which] = load(arguments[1 + which]);
        int status = libraries[which].open(arguments[3], 0, &databases[which]);
        if (status != MMDB_SUCCESS) {
            fprintf(stderr, "%s: %s\n", arguments[3], libraries[which].strerror(status));
            return 2;
        }
    }
    uint8_t address[16] = {0};
    collect(0, address,
            databases[1].metadata.ip_version == 6 ? 0 : 96);
    questions = calloc(question_count, sizeof(*questions));
    uint64_t state = 7;
    int failures = 0;
    printf("%-34s %11s %11s %7s\n", "", "ours", "original", "ratio");
    draw_uniform(&state);
    for (size_t i = 4; i < question_count; i++) {
        questions[i] = questions[i % 4];
    }
    failures += measure("lookup/the same four", rounds, ask_lookups);
    failures += measure("lookup + 4 values/the same four", rounds, ask_fields);
    draw_uniform(&state);
    failures += measure("lookup/uniform IPv4", rounds, ask_lookups);
    failures += measure("lookup + 4 values/uniform IPv4", rounds, ask_fields);
    for (int is_ipv6 = 0; is_ipv6 < 2; is_ipv6++) {
        if (network_count[is_ipv6] == 0) {
            continue;
        }
        draw_networks(&state, is_ipv6);
        const char *const names[2][2] = {
            {"lookup/own IPv4 networks", "lookup + 4 values/own IPv4 networks"},
            {"lookup/own IPv6 networks", "lookup + 4 values/own IPv6 networks"}};
        failures += measure(names[is_ipv6][0], rounds, ask_lookups);
        failures += measure(names[is_ipv6][1], rounds, ask_fields);
    }
    return failures ? 1 : 0;
}
