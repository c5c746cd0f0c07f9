/* differential OURS THEIRS FILE...: asks two libraries the same, in one process, and stops at the
 * first difference.
 *
 * Of each file: what MMDB_open says and fills in, every node, every network and random addresses
 * with their records as lists and as printed, and every path in every record, right and wrong.
 * Values that the original leaves uninitialized are not compared. An original of another version
 * than the one whose interface ours has may be older: what that version has changed since is then
 * not compared, as each place says. */

#include "libraries.h"
#include <arpa/inet.h>
#include <errno.h>

enum { MAX_PATH = 600, RANDOM_ADDRESSES = 20000 };

static library ours, theirs;
static MMDB_s our_db, their_db;
static const char *file;
static long lookups, paths, records;
static bool is_same_version;

#define SAME(a, b, what)                                                                     \
    do {                                                                                     \
        long long ours_is = (long long)(a), theirs_is = (long long)(b);                      \
        if (ours_is != theirs_is) {                                                          \
            fprintf(stderr, "%s: %s: %lld, the original: %lld (line %d)\n", file, what,      \
                    ours_is, theirs_is, __LINE__);                                           \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

static void same_text(const char *a, const char *b, const char *what) {
    if (strcmp(a, b) != 0) {
        fprintf(stderr, "%s: %s: \"%s\", the original: \"%s\"\n", file, what, a, b);
        exit(1);
    }
}

static void same_data(const MMDB_entry_data_s *a, const MMDB_entry_data_s *b) {
    SAME(a->has_data, b->has_data, "has_data");
    if (!b->has_data) {
        return;
    }
    SAME(a->type, b->type, "type");
    SAME(a->offset, b->offset, "offset");
    SAME(a->offset_to_next, b->offset_to_next, "offset_to_next");
    switch (b->type) {
    case MMDB_DATA_TYPE_UTF8_STRING:
    case MMDB_DATA_TYPE_BYTES:
        SAME(a->data_size, b->data_size, "data_size");
        SAME(memcmp(a->bytes, b->bytes, b->data_size), 0, "content");
        if (b->data_size > 0 && (const uint8_t *)a->bytes >= our_db.data_section &&
            a->bytes < our_db.data_section + our_db.data_section_size) {
            SAME(a->bytes - our_db.data_section, b->bytes - their_db.data_section, "place");
        }
        break;
    case MMDB_DATA_TYPE_MAP:
    case MMDB_DATA_TYPE_ARRAY: SAME(a->data_size, b->data_size, "data_size"); break;
    case MMDB_DATA_TYPE_BOOLEAN: SAME(a->boolean, b->boolean, "boolean"); break;
    case MMDB_DATA_TYPE_UINT16: SAME(a->uint16, b->uint16, "uint16"); break;
    case MMDB_DATA_TYPE_UINT32: SAME(a->uint32, b->uint32, "uint32"); break;
    case MMDB_DATA_TYPE_INT32: SAME(a->int32, b->int32, "int32"); break;
    case MMDB_DATA_TYPE_UINT64: SAME(a->uint64, b->uint64, "uint64"); break;
    case MMDB_DATA_TYPE_UINT128: SAME(memcmp(&a->uint128, &b->uint128, 16), 0, "uint128"); break;
    case MMDB_DATA_TYPE_FLOAT: SAME(memcmp(&a->float_value, &b->float_value, 4), 0, "float"); break;
    case MMDB_DATA_TYPE_DOUBLE:
        SAME(memcmp(&a->double_value, &b->double_value, 8), 0, "double");
        break;
    default: SAME(0, b->type, "a type that no record may hold");
    }
}

static int by_list(const library *it, MMDB_entry_s *entry, MMDB_entry_data_s *data, ...) {
    va_list path;
    va_start(path, data);
    int status = it->vget_value(entry, data, path);
    va_end(path);
    return status;
}

static void same_path(uint32_t offset, const char *const *path, int length) {
    MMDB_entry_s our_entry = {&our_db, offset}, their_entry = {&their_db, offset};
    MMDB_entry_data_s a, b, c, d;
    int their_status = theirs.aget_value(&their_entry, &b, path);
    SAME(ours.aget_value(&our_entry, &a, path), their_status, "MMDB_aget_value");
    same_data(&a, &b);
    const char *const *p = path;
#define BOTH(call, data, ...)                                                                \
    (call == 0 ? ours.get_value(&our_entry, data, __VA_ARGS__)                               \
               : by_list(&ours, &our_entry, data, __VA_ARGS__))
    for (int call = 0; call < 2; call++) {
        MMDB_entry_data_s *to = call == 0 ? &c : &d;
        int status = their_status;
        switch (length) {
        case 0: status = BOTH(call, to, NULL); break;
        case 1: status = BOTH(call, to, p[0], NULL); break;
        case 2: status = BOTH(call, to, p[0], p[1], NULL); break;
        case 3: status = BOTH(call, to, p[0], p[1], p[2], NULL); break;
        case 4: status = BOTH(call, to, p[0], p[1], p[2], p[3], NULL); break;
        default: *to = a;
        }
        SAME(status, their_status, "MMDB_get_value or MMDB_vget_value");
        same_data(to, &b);
    }
    paths++;
}

/* Paths that lead nowhere from the value at `path`, and spellings of an index. */
static void same_wrong_paths(uint32_t offset, const char **path, int length) {
    static const char *const wrong[] = {"no such key", "", "0", "+0", " 0", "-1", "0x", "-9", "7",
                                        "99999999999999999999", "-99999999999999999999"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        path[length] = wrong[i];
        path[length + 1] = NULL;
        same_path(offset, path, length + 1);
    }
}

/* Follows the list through one value; gives the element behind it. */
static MMDB_entry_data_list_s *same_paths(uint32_t offset, MMDB_entry_data_list_s *at,
                                          const char **path, int length) {
    MMDB_entry_data_s *data = &at->entry_data;
    path[length] = NULL;
    same_path(offset, path, length);
    same_wrong_paths(offset, path, length);
    at = at->next;
    for (uint32_t i = 0; i < data->data_size && data->type == MMDB_DATA_TYPE_MAP; i++) {
        char *key = strndup(at->entry_data.utf8_string, at->entry_data.data_size);
        path[length] = key;
        at = same_paths(offset, at->next, path, length + 1);
        free(key);
    }
    for (uint32_t i = 0; i < data->data_size && data->type == MMDB_DATA_TYPE_ARRAY; i++) {
        char index[16];
        snprintf(index, sizeof(index), i % 2 ? "%u" : "-%u", i % 2 ? i : data->data_size - i);
        path[length] = index;
        at = same_paths(offset, at, path, length + 1);
    }
    return at;
}

static char *printed(const library *it, MMDB_entry_data_list_s *list, int *status) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    *status = it->dump_entry_data_list(stream, list, 2);
    fclose(stream);
    return text;
}

static void same_lists(MMDB_entry_data_list_s *a, MMDB_entry_data_list_s *b) {
    MMDB_entry_data_list_s *first_a = a, *first_b = b;
    for (; a != NULL && b != NULL; a = a->next, b = b->next) {
        same_data(&a->entry_data, &b->entry_data);
    }
    SAME(a != NULL, b != NULL, "the list goes on");
    int our_status, their_status;
    char *our_text = printed(&ours, first_a, &our_status);
    char *their_text = printed(&theirs, first_b, &their_status);
    SAME(our_status, their_status, "MMDB_dump_entry_data_list");
    same_text(our_text, their_text, "the printed list");
    free(our_text);
    free(their_text);
}

static void same_record(uint32_t offset) {
    MMDB_entry_s our_entry = {&our_db, offset}, their_entry = {&their_db, offset};
    MMDB_entry_data_list_s *a = NULL, *b = NULL;
    int status = theirs.get_entry_data_list(&their_entry, &b);
    SAME(ours.get_entry_data_list(&our_entry, &a), status, "MMDB_get_entry_data_list");
    if (status == MMDB_SUCCESS) {
        const char *path[MAX_PATH];
        same_lists(a, b);
        same_paths(offset, b, path, 0);
        records++;
    }
    ours.free_entry_data_list(a);
    theirs.free_entry_data_list(b);
}

/* Values asked for with the very entry that a lookup gave, and then with a copy of its members: an
 * index leaves a mark of its own beside the offset, which must never be believed blindly. */
static void same_values(MMDB_entry_s *our_entry, MMDB_entry_s *their_entry) {
    static const char *const asked[][4] = {
        {"country", "iso_code"}, {"city", "names", "en"}, {"location", "latitude"},
        {"location", "longitude"}, {"subdivisions", "0", "iso_code"}, {"map", "mapX"}};
    static uint32_t wrong_mark;
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        MMDB_entry_data_s a, b;
        int status = theirs.aget_value(their_entry, &b, asked[i]);
        SAME(ours.aget_value(our_entry, &a, asked[i]), status, "MMDB_aget_value");
        same_data(&a, &b);
        MMDB_entry_s copy = {our_entry->mmdb, our_entry->offset};
        wrong_mark = (wrong_mark + 1) % 5;
        memcpy((char *)&copy + 12, &wrong_mark, 4);
        SAME(ours.aget_value(&copy, &a, asked[i]), status, "MMDB_aget_value of a copy");
        same_data(&a, &b);
    }
}

static void same_result(MMDB_lookup_result_s a, MMDB_lookup_result_s b, int our, int their) {
    SAME(our, their, "lookup");
    SAME(a.found_entry, b.found_entry, "found_entry");
    if (their == MMDB_SUCCESS) {
        SAME(a.netmask, b.netmask, "netmask");
        SAME(a.entry.offset, b.entry.offset, "entry.offset");
    }
    SAME(a.entry.mmdb == &our_db, b.entry.mmdb == &their_db, "entry.mmdb");
    if (their == MMDB_SUCCESS && b.found_entry && lookups % 16 == 0) {
        same_values(&a.entry, &b.entry);
    }
    lookups++;
}

static void same_address(const struct sockaddr *address) {
    int our, their;
    MMDB_lookup_result_s a = ours.lookup_sockaddr(&our_db, address, &our);
    MMDB_lookup_result_s b = theirs.lookup_sockaddr(&their_db, address, &their);
    same_result(a, b, our, their);
}

static void same_text_address(const char *text) {
    int our_gai, their_gai, our = -1, their = -1;
    MMDB_lookup_result_s a = ours.lookup_string(&our_db, text, &our_gai, &our);
    MMDB_lookup_result_s b = theirs.lookup_string(&their_db, text, &their_gai, &their);
    SAME(our_gai, their_gai, text);
    if (their_gai != 0 && !is_same_version) {
        their = MMDB_SUCCESS; /* since 1.13; left alone before */
    }
    same_result(a, b, our, their);
}

/* Every node once, and an address of every network below it. */
static void same_nodes(uint32_t number, uint8_t address[16], int depth, uint8_t *seen) {
    MMDB_search_node_s a, b;
    if (seen[number]++) {
        return;
    }
    int their_status = theirs.read_node(&their_db, number, &b);
    if (b.left_record_type == MMDB_RECORD_TYPE_INVALID ||
        b.right_record_type == MMDB_RECORD_TYPE_INVALID) {
        /* Since 1.14; success before. */
        SAME(ours.read_node(&our_db, number, &a), MMDB_CORRUPT_SEARCH_TREE_ERROR, "read_node");
        SAME(is_same_version ? their_status : 2, MMDB_CORRUPT_SEARCH_TREE_ERROR, "the original");
    } else {
        SAME(ours.read_node(&our_db, number, &a), their_status, "read_node");
    }
    SAME(a.left_record, b.left_record, "left_record");
    SAME(a.right_record, b.right_record, "right_record");
    SAME(a.left_record_type, b.left_record_type, "left_record_type");
    SAME(a.right_record_type, b.right_record_type, "right_record_type");
    if (their_status == MMDB_SUCCESS) {
        SAME(a.left_record_entry.offset, b.left_record_entry.offset, "left_record_entry");
        SAME(a.right_record_entry.offset, b.right_record_entry.offset, "right_record_entry");
    }
    for (int side = 0; side < 2 && depth < their_db.depth; side++) {
        uint8_t type = side ? b.right_record_type : b.left_record_type;
        address[depth / 8] &= ~(128 >> depth % 8);
        address[depth / 8] |= side ? 128 >> depth % 8 : 0;
        if (type == MMDB_RECORD_TYPE_SEARCH_NODE) {
            uint64_t child = side ? b.right_record : b.left_record;
            same_nodes((uint32_t)child, address, depth + 1, seen);
        } else {
            struct sockaddr_in four = ipv4(ntohl(*(uint32_t *)(address + (their_db.depth == 32 ? 0 : 12))));
            struct sockaddr_in6 six = ipv6(address);
            same_address((struct sockaddr *)&four);
            same_address((struct sockaddr *)&six);
        }
        if (type == MMDB_RECORD_TYPE_DATA) {
            same_record(side ? b.right_record_entry.offset : b.left_record_entry.offset);
        }
        address[depth / 8] &= ~(128 >> depth % 8);
    }
}

static void same_metadata(void) {
    const MMDB_s *a = &our_db, *b = &their_db;
    SAME(a->flags, b->flags, "flags");
    same_text(a->filename, b->filename, "filename");
    SAME(a->file_size, b->file_size, "file_size");
    SAME(memcmp(a->file_content, b->file_content, (size_t)b->file_size), 0, "file_content");
    SAME(a->data_section - a->file_content, b->data_section - b->file_content, "data_section");
    SAME(a->data_section_size, b->data_section_size, "data_section_size");
    SAME(a->metadata_section - a->file_content, b->metadata_section - b->file_content, "metadata");
    SAME(a->metadata_section_size, b->metadata_section_size, "metadata_section_size");
    SAME(a->full_record_byte_size, b->full_record_byte_size, "full_record_byte_size");
    SAME(a->depth, b->depth, "depth");
    SAME(a->ipv4_start_node.netmask, b->ipv4_start_node.netmask, "ipv4_start_node.netmask");
    SAME(a->ipv4_start_node.node_value, b->ipv4_start_node.node_value, "ipv4_start_node");
    const MMDB_metadata_s *c = &a->metadata, *d = &b->metadata;
    SAME(c->node_count, d->node_count, "node_count");
    SAME(c->record_size, d->record_size, "record_size");
    SAME(c->ip_version, d->ip_version, "ip_version");
    same_text(c->database_type, d->database_type, "database_type");
    SAME(c->binary_format_major_version, d->binary_format_major_version, "major version");
    SAME(c->binary_format_minor_version, d->binary_format_minor_version, "minor version");
    SAME(c->build_epoch, d->build_epoch, "build_epoch");
    SAME(c->languages.count, d->languages.count, "languages");
    for (size_t i = 0; i < d->languages.count; i++) {
        same_text(c->languages.names[i], d->languages.names[i], "language");
    }
    SAME(c->description.count, d->description.count, "descriptions");
    for (size_t i = 0; i < d->description.count; i++) {
        const MMDB_description_s *e = c->description.descriptions[i];
        const MMDB_description_s *f = d->description.descriptions[i];
        same_text(e->language, f->language, "description's language");
        same_text(e->description, f->description, "description");
    }
    MMDB_entry_data_list_s *e, *f;
    SAME(ours.get_metadata_as_entry_data_list(a, &e), MMDB_SUCCESS, "metadata list");
    SAME(theirs.get_metadata_as_entry_data_list(b, &f), MMDB_SUCCESS, "metadata list");
    same_lists(e, f);
    ours.free_entry_data_list(e);
    theirs.free_entry_data_list(f);
}

static void same_addresses(void) {
    static const char *const texts[] = {
        "1.1.1.1", "1.1.1.01", "0x1.1", "127.1", "::", "::1.1.1.1", "::ffff:1.1.1.1", "2001:218::1",
        "fe80::1%lo", "fe80::1%nowhere", "1.1.1.256", "example", "", " 1.1.1.1", "1.1.1.1 ", "::g"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        same_text_address(texts[i]);
    }
    same_text_address(NULL);
    uint64_t state = 1;
    for (int i = 0; i < RANDOM_ADDRESSES; i++) {
        struct sockaddr_in four = ipv4((uint32_t)next_random(&state));
        same_address((struct sockaddr *)&four);
        uint64_t halves[2] = {next_random(&state), next_random(&state)};
        /* Half of them in 2000::/3, and some in the ranges that lead back to IPv4. */
        uint8_t *bytes = (uint8_t *)halves;
        static const uint8_t alias[12] = {[10] = 255, [11] = 255};
        switch (i % 8) {
        case 0: memcpy(bytes, alias, 12); break;
        case 1: memset(bytes, 0, 12); break;
        case 2: memcpy(bytes, (uint8_t[]){0x20, 0x02}, 2); break;
        case 3: break;
        default: bytes[0] = 0x20 | (bytes[0] & 31);
        }
        struct sockaddr_in6 six = ipv6(bytes);
        same_address((struct sockaddr *)&six);
    }
}

static void same_file(void) {
    errno = 0;
    int our_status = ours.open(file, 0, &our_db), our_errno = errno;
    errno = 0;
    int their_status = theirs.open(file, 0, &their_db), their_errno = errno;
    SAME(our_status, their_status, "MMDB_open");
    SAME(our_errno, their_errno, "errno");
    if (their_status != MMDB_SUCCESS) {
        return;
    }
    same_metadata();
    same_addresses();
    uint8_t address[16] = {0};
    uint8_t *seen = calloc(their_db.metadata.node_count + 1, 1);
    same_nodes(0, address, 0, seen);
    MMDB_search_node_s node;
    for (uint32_t beyond = 0; beyond < 2; beyond++) {
        SAME(ours.read_node(&our_db, their_db.metadata.node_count + beyond, &node),
             MMDB_INVALID_NODE_NUMBER_ERROR, "read_node");
    }
    free(seen);
    /* A copy must do as well as the structure that was opened. */
    MMDB_s *moved = malloc(sizeof(*moved));
    *moved = our_db;
    memset(&our_db, 0, sizeof(our_db));
    int gai, status;
    ours.lookup_string(moved, "1.1.1.1", &gai, &status);
    SAME(status, MMDB_SUCCESS, "lookup in a moved structure");
    ours.close(moved);
    theirs.close(&their_db);
    free(moved);
}

/* A structure of zeros, as a host has it before it opens one: an error where the original aborts */
static void unopened_is_an_error(void) {
    const int wanted = MMDB_UNKNOWN_DATABASE_FORMAT_ERROR;
    int gai, status;
    MMDB_search_node_s node;
    memset(&our_db, 0, sizeof(our_db));
    struct sockaddr_in four = ipv4(0x01010101);
    struct sockaddr_in6 six = ipv6((const uint8_t[16]){0x20, 1});
    ours.lookup_sockaddr(&our_db, (struct sockaddr *)&four, &status);
    SAME(status, wanted, "lookup of IPv4 in an unopened structure");
    ours.lookup_sockaddr(&our_db, (struct sockaddr *)&six, &status);
    SAME(status, wanted, "lookup of IPv6 in an unopened structure");
    MMDB_lookup_result_s found = ours.lookup_string(&our_db, "1.1.1.1", &gai, &status);
    SAME(status, wanted, "lookup of a text in an unopened structure");
    SAME(found.found_entry, false, "found_entry");
    SAME(ours.read_node(&our_db, 0, &node), wanted, "read_node of an unopened structure");
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: differential OURS THEIRS FILE...\n");
        return 2;
    }
    ours = load(arguments[1]);
    theirs = load(arguments[2]);
    file = "no file";
    is_same_version = strcmp(ours.lib_version(), theirs.lib_version()) == 0;
    for (int status = -2; status < (is_same_version ? 16 : 12); status++) {
        same_text(ours.strerror(status), theirs.strerror(status), "MMDB_strerror");
    }
    unopened_is_an_error();
    for (int i = 3; i < count; i++) {
        file = arguments[i];
        same_file();
    }
    printf("%d files: %ld lookups, %ld records and %ld paths are the same\n", count - 3, lookups,
           records, paths);
    return 0;
}
