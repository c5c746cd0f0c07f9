/* One number over all answers: the twin of crates/whered-bench/src/lookup/checksum.rs. */

#ifndef WHERED_VERSUS_CHECKSUM_H
#define WHERED_VERSUS_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t share_of_record(int is_found, uint32_t offset) {
    return is_found ? (uint64_t)offset + 1 : 0;
}

static inline uint64_t word_of_text(const char *text, size_t length) {
    uint64_t word = 0;
    if (length >= 4) {
        uint32_t first, last;
        memcpy(&first, text, 4);
        memcpy(&last, text + (length < 8 ? length : 8) - 4, 4);
        word = (uint64_t)first | (uint64_t)last << 32;
    } else {
        for (size_t i = length; i > 0; i--) {
            word = word << 8 | (unsigned char)text[i - 1];
        }
    }
    return word + (uint64_t)length * 0x9e3779b97f4a7c15u;
}

/* What Rust calls f64::NAN. */
static inline double absent_number(void) {
    const uint64_t bits = 0x7ff8000000000000u;
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline uint64_t bits_of(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static inline uint64_t share_of_fields(uint64_t country, uint64_t city, double latitude,
                                       double longitude) {
    return country * 0xff51afd7ed558ccdu + city * 0xc4ceb9fe1a85ec53u +
           bits_of(latitude) * 0xd6e8feb86659fd93u + bits_of(longitude) * 0xa0761d6478bd642fu;
}

#endif
