/* level LIBRARY FILE...: what a library says of each file, one line for each call, for comparison
 * with what another library or a test says.
 *
 * Broken files are welcome. Asked are MMDB_open and the numbers that it fills in, lookups of some
 * addresses and address families, the first nodes and those behind the last, records as lists and
 * as printed, some paths, and what is left after MMDB_close, which is called twice. Addresses of
 * memory are not shown. A file that ends the library ends the program. */

#include "libraries.h"
#include <arpa/inet.h>
#include <sys/un.h>

enum { NODES = 40 };

static library it;

static uint32_t checksum(const char *text, size_t size) {
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < size; i++) {
        sum = (sum ^ (uint8_t)text[i]) * 16777619u;
    }
    return sum;
}

static void show_list(const char *what, int status, MMDB_entry_data_list_s *list) {
    printf("%s %d %s", what, status, list == NULL ? "null" : "list");
    if (status == MMDB_SUCCESS) {
        long length = 0;
        for (MMDB_entry_data_list_s *at = list; at != NULL; at = at->next) {
            length++;
        }
        char *text = NULL;
        size_t size = 0;
        FILE *stream = open_memstream(&text, &size);
        int printed = it.dump_entry_data_list(stream, list, -3);
        fclose(stream);
        printf(" values %ld dump %d %08x", length, printed, checksum(text, size));
        free(text);
    }
    printf("\n");
    it.free_entry_data_list(list);
}

static void show_record(MMDB_entry_s *entry) {
    MMDB_entry_data_list_s *list = (MMDB_entry_data_list_s *)1;
    int status = it.get_entry_data_list(entry, &list);
    show_list("  list", status, list);
    static const char *const paths[][3] = {
        {NULL}, {"a"}, {"a", "0"}, {"z"}, {"0"}, {"1"}, {"-1"}, {"ip"}, {"country", "iso_code"}};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        MMDB_entry_data_s data;
        status = it.aget_value(entry, &data, paths[i]);
        printf("  value %zu %d", i, status);
        if (status == MMDB_SUCCESS) {
            bool has_size = data.type == MMDB_DATA_TYPE_UTF8_STRING ||
                            data.type == MMDB_DATA_TYPE_BYTES || data.type == MMDB_DATA_TYPE_MAP ||
                            data.type == MMDB_DATA_TYPE_ARRAY;
            printf(" type %u offset %u next %u size %u", data.type, data.offset,
                   data.offset_to_next, has_size ? data.data_size : 0);
        }
        printf("\n");
    }
}

static void show_result(const char *what, MMDB_lookup_result_s result, int status, bool whole) {
    printf("lookup %s %d found %d", what, status, result.found_entry);
    if (status == MMDB_SUCCESS) {
        printf(" netmask %d offset %u", result.netmask, result.entry.offset);
    }
    printf("\n");
    if (whole && status == MMDB_SUCCESS && result.found_entry) {
        show_record(&result.entry);
    }
}

static void show_lookups(const MMDB_s *database, bool whole) {
    static const char *const texts[] = {
        "0.0.0.0", "128.0.0.1", "1.1.1.1", "255.255.255.255", "::", "::1.1.1.1", "::ffff:1.1.1.1",
        "2001:db8::1", "ffff::", "no address", "1.1.1.256"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int gai = -99, status = -99;
        MMDB_lookup_result_s result = it.lookup_string(database, texts[i], &gai, &status);
        printf("gai %d ", gai != 0);
        show_result(texts[i], result, status, whole);
    }
    static const int families[] = {AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, AF_PACKET, 65535};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        struct sockaddr_storage address = {.ss_family = (sa_family_t)families[i]};
        int status = -99;
        MMDB_lookup_result_s result =
            it.lookup_sockaddr(database, (struct sockaddr *)&address, &status);
        char what[32];
        snprintf(what, sizeof(what), "family %d", families[i]);
        show_result(what, result, status, false);
    }
}

static void show_node(const MMDB_s *database, uint32_t number) {
    MMDB_search_node_s node;
    memset(&node, 0, sizeof(node));
    int status = it.read_node(database, number, &node);
    printf("node %u %d %llu %llu %d %d", number, status, (unsigned long long)node.left_record,
           (unsigned long long)node.right_record, node.left_record_type, node.right_record_type);
    if (status == MMDB_SUCCESS) {
        printf(" %u %u", node.left_record_entry.offset, node.right_record_entry.offset);
    }
    printf("\n");
}

static void show_structure(const MMDB_s *it_is) {
    const MMDB_metadata_s *metadata = &it_is->metadata;
    printf("file %zd content %d data %d %u metadata %d %u name %d\n", it_is->file_size,
           it_is->file_content != NULL, it_is->data_section != NULL, it_is->data_section_size,
           it_is->metadata_section != NULL, it_is->metadata_section_size,
           it_is->filename != NULL);
    printf("type %d languages %zu %d descriptions %zu %d\n", metadata->database_type != NULL,
           metadata->languages.count, metadata->languages.names != NULL,
           metadata->description.count, metadata->description.descriptions != NULL);
}

static void show_shape(const MMDB_s *it_is) {
    const MMDB_metadata_s *metadata = &it_is->metadata;
    printf("nodes %u bits %d version %d format %d.%d epoch %llu record %d depth %d start %d %u\n",
           metadata->node_count, metadata->record_size, metadata->ip_version,
           metadata->binary_format_major_version, metadata->binary_format_minor_version,
           (unsigned long long)metadata->build_epoch, it_is->full_record_byte_size, it_is->depth,
           it_is->ipv4_start_node.netmask, it_is->ipv4_start_node.node_value);
}

static void show_metadata(const MMDB_s *database) {
    MMDB_entry_data_list_s *list = (MMDB_entry_data_list_s *)1;
    int status = it.get_metadata_as_entry_data_list(database, &list);
    show_list("metadata", status, list);
}

static void show(const char *path) {
    MMDB_s database;
    memset(&database, 0, sizeof(database));
    int status = it.open(path, 0, &database);
    printf("file %s\nopen %d\n", path, status);
    show_structure(&database);
    if (status == MMDB_SUCCESS) {
        show_shape(&database);
        show_metadata(&database);
        show_lookups(&database, true);
        uint32_t count = database.metadata.node_count;
        for (uint32_t number = 0; number < (count < NODES ? count : NODES); number++) {
            show_node(&database, number);
        }
        show_node(&database, count);
        show_node(&database, count + 1);
        show_node(&database, UINT32_MAX);
    }
    /* After a failure, too, and twice. */
    for (int time = 0; time < 2; time++) {
        it.close(&database);
        printf("closed\n");
        show_structure(&database);
    }
    if (status == MMDB_SUCCESS) {
        show_shape(&database);
        show_metadata(&database);
        show_lookups(&database, false);
        show_node(&database, 0);
        show_node(&database, database.metadata.node_count);
        MMDB_entry_s entry = {&database, 0};
        show_record(&entry);
    }
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: level LIBRARY FILE...\n");
        return 2;
    }
    it = load(arguments[1]);
    printf("version %s\n", it.lib_version());
    for (int status = -1; status < 16; status++) {
        printf("error %d: %s\n", status, it.strerror(status));
    }
    MMDB_s unopened;
    memset(&unopened, 0, sizeof(unopened));
    show_lookups(&unopened, false);
    show_node(&unopened, 0);
    show_metadata(&unopened);
    for (int i = 2; i < count; i++) {
        show(arguments[i]);
        fflush(stdout);
    }
    return 0;
}
