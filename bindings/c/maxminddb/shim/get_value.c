/* Variable arguments to a path array: the two functions of libmaxminddb that Rust cannot define.
 *
 * Not for looking anything up: MMDB_aget_value does that. Paths of up to PATH_ON_STACK names cost
 * no allocation; longer ones are gathered in memory from malloc. */

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

enum { PATH_ON_STACK = 16, OUT_OF_MEMORY = 5 };

extern int MMDB_aget_value(void *start, void *entry_data, const char *const *path);

static int long_path(void *start, void *entry_data, va_list arguments) {
    va_list counting;
    size_t count = 1;
    va_copy(counting, arguments);
    while (va_arg(counting, const char *) != NULL) {
        count++;
    }
    va_end(counting);
    const char **path = calloc(count, sizeof(*path));
    if (path == NULL) {
        return OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        path[i] = va_arg(arguments, const char *);
    }
    int status = MMDB_aget_value(start, entry_data, path);
    free(path);
    return status;
}

int whered_vget_value(void *start, void *entry_data, va_list arguments) {
    const char *path[PATH_ON_STACK];
    va_list rest;
    va_copy(rest, arguments);
    size_t count = 0;
    while (count < PATH_ON_STACK && (path[count] = va_arg(rest, const char *)) != NULL) {
        count++;
    }
    va_end(rest);
    if (count == PATH_ON_STACK) {
        return long_path(start, entry_data, arguments);
    }
    return MMDB_aget_value(start, entry_data, path);
}

int whered_get_value(void *start, void *entry_data, ...) {
    va_list arguments;
    va_start(arguments, entry_data);
    int status = whered_vget_value(start, entry_data, arguments);
    va_end(arguments);
    return status;
}
