/* whered.h: IP databases (MaxMind DB and legacy GeoIP files) for C programs.
 *
 * A database is opened with the fields that the program will ask for. A lookup writes an answer
 * into memory of the caller and allocates nothing. Any number of threads may ask one database at
 * once, also while it is reloaded: a question sees the old file or the new one, never both.
 *
 *     whered_options options = {.mode = WHERED_MODE_INDEX, .fields = fields, .field_count = 2};
 *     whered_database *database;
 *     if (whered_open("city.mmdb", &options, &database) != WHERED_OK) {
 *         fprintf(stderr, "%s\n", whered_error_text());
 *     }
 *
 * The library starts no threads, sets no signal handlers and prints nothing. A process may open a
 * database and then fork; the memory is shared until a child reloads.
 *
 * A lookup takes no lock and writes nothing that threads share. For that, each thread keeps the
 * file that it asked last, for up to eight databases: the memory of an old file is free once every
 * thread that asked it has asked the database again, or has ended.
 *
 * Link with `pkg-config --cflags --libs whered`, or find_package(whered) and whered::whered. */

#ifndef WHERED_H
#define WHERED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call gives back: 0 or one of these. whered_error_text() says more. */
enum {
    WHERED_OK = 0,
    WHERED_NOT_FOUND = 1,      /* the database has no record for the address */
    WHERED_BAD_ARGUMENT = 2,   /* a null pointer, an unknown mode, a bad field path or address */
    WHERED_CANNOT_READ = 3,    /* the file cannot be opened or read */
    WHERED_BAD_DATABASE = 4,   /* the file is no database, or a broken one */
    WHERED_WRONG_FAMILY = 5,   /* an IPv6 address in a database of IPv4 */
    WHERED_INTERNAL = 6        /* a fault of the library */
};

enum {
    WHERED_MODE_TREE = 0,      /* walks the file's tree: opens at once, no memory beside the file */
    WHERED_MODE_INDEX = 1      /* compiles the file at opening: many times as fast, and the fields
                                  are decoded once for all addresses */
};

typedef struct whered_database whered_database;

typedef struct whered_options {
    uint32_t mode;
    /* The fields of an answer: paths such as "country.iso_code" or "subdivisions.0.names.en". */
    const char *const *fields;
    size_t field_count;
} whered_options;

/* An address: 16 bytes in network order; an IPv4 address in the first four. */
typedef struct whered_address {
    uint8_t bytes[16];
    uint8_t is_ipv6;
} whered_address;

enum {
    WHERED_ABSENT = 0,         /* the record has no such field, or there is no record */
    WHERED_TEXT = 1,           /* text and text_size_bytes; no zero byte behind it */
    WHERED_NUMBER = 2,         /* number, rounded beyond 53 bits; 0 and 1 for a boolean */
    WHERED_OTHER = 3           /* a map, an array or bytes: not given by this interface */
};

/* One field of an answer. Text is copied into `text` as far as it fits; `text_size_bytes` is its
 * whole size. */
enum { WHERED_TEXT_BYTES_MAX = 104 };

typedef struct whered_value {
    uint32_t kind;
    uint32_t text_size_bytes;
    double number;
    char text[WHERED_TEXT_BYTES_MAX];
} whered_value;

/* The network that the answer is for, by its length, and whether it has a record. */
typedef struct whered_answer {
    int32_t status;            /* as the calls give it */
    uint8_t prefix_length_bits;
    uint8_t reserved[3];
} whered_answer;

/* Opens a database; `options` may be null: a tree, no fields. The file is read into memory, so that
 * nothing happens to answers when it is overwritten. */
int whered_open(const char *path, const whered_options *options, whered_database **database);

/* Reads the file again, whole, and puts it in the old one's place if it is a good database; if not,
 * the old one stays. Questions never wait. */
int whered_reload(whered_database *database);

/* Frees a database that nobody asks any more; null is no database. */
void whered_close(whered_database *database);

/* An address from its text: dotted decimal or IPv6. */
int whered_parse(const char *text, whered_address *address);

/* Looks up one address: `values` has room for as many values as there are fields; it may be null if
 * there are none. Gives the answer's status. */
int whered_lookup(const whered_database *database, const whered_address *address,
                  whered_answer *answer, whered_value *values);

/* Looks up `count` addresses: answers[i] and values[i * fields ...] are those of addresses[i]. All
 * are answered from one generation of the file. WHERED_OK if every address was answered, found or
 * not; else the status of the first that was not. */
int whered_lookup_batch(const whered_database *database, const whered_address *addresses,
                        size_t count, whered_answer *answers, whered_value *values);

/* How many fields an answer has. */
size_t whered_field_count(const whered_database *database);

/* What was wrong with this thread's last call that failed: one line, valid until its next call. */
const char *whered_error_text(void);

/* The library's version, such as "0.1.0". */
const char *whered_version(void);

#ifdef __cplusplus
}
#endif

#endif
