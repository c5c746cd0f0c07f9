/* lookup FILE ADDRESS...: country and city of addresses, one a line.
 *
 *     cc lookup.c $(pkg-config --cflags --libs whered) -o lookup */

#include <stdio.h>
#include <stdlib.h>
#include <whered.h>

static const char *const fields[] = {"country.iso_code", "city.names.en", "location.latitude"};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]), MOST = 64 };

static void print(const whered_value *value) {
    if (value->kind == WHERED_TEXT) {
        printf(" %.*s", (int)value->text_size_bytes, value->text);
    } else if (value->kind == WHERED_NUMBER) {
        printf(" %g", value->number);
    } else {
        printf(" -");
    }
}

int main(int count, char **arguments) {
    if (count < 3 || count > MOST + 2) {
        fprintf(stderr, "usage: lookup FILE ADDRESS...\n");
        return 2;
    }
    whered_options options = {.mode = getenv("TREE") ? WHERED_MODE_TREE : WHERED_MODE_INDEX,
                              .fields = fields,
                              .field_count = FIELDS};
    whered_database *database;
    if (whered_open(arguments[1], &options, &database) != WHERED_OK) {
        fprintf(stderr, "%s\n", whered_error_text());
        return 2;
    }
    whered_address addresses[MOST];
    size_t asked = (size_t)count - 2;
    for (size_t i = 0; i < asked; i++) {
        if (whered_parse(arguments[i + 2], &addresses[i]) != WHERED_OK) {
            fprintf(stderr, "%s\n", whered_error_text());
            return 2;
        }
    }
    /* All at once, from one generation of the file ... */
    whered_answer answers[MOST];
    whered_value values[MOST * FIELDS];
    if (whered_reload(database) != WHERED_OK ||
        whered_lookup_batch(database, addresses, asked, answers, values) != WHERED_OK) {
        fprintf(stderr, "%s\n", whered_error_text());
    }
    for (size_t i = 0; i < asked; i++) {
        printf("%s/%u %d", arguments[i + 2], answers[i].prefix_length_bits, answers[i].status);
        for (size_t field = 0; field < FIELDS; field++) {
            print(&values[i * FIELDS + field]);
        }
        printf("\n");
        /* ... and one by one, which says the same. */
        whered_answer answer;
        whered_value again[FIELDS];
        if (whered_lookup(database, &addresses[i], &answer, again) != answers[i].status ||
            answer.prefix_length_bits != answers[i].prefix_length_bits ||
            again[0].kind != values[i * FIELDS].kind) {
            fprintf(stderr, "a single lookup differs\n");
            return 2;
        }
    }
    whered_close(database);
    return 0;
}
