/* One number over all answers: the twin of bench/whered-bench/src/lookup/checksum.rs. */

#ifndef WHERED_VERSUS_CHECKSUM_H
#define WHERED_VERSUS_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t share_of_record(int is_found, uint32_t offset) {
    return is_found ? (uint64_t)offset + 1 : 0;
}

enum octets { OCTETS_ENDS, OCTETS_ALL };

static inline uint64_t word_of_text(const char *text, size_t length, enum octets octets) {
    const unsigned char *bytes = (const unsigned char *)text;
    if (octets == OCTETS_ENDS) {
        static const unsigned char none[1] = {0};
        const unsigned char *shown = length ? bytes : none;
        size_t last = length ? length - 1 : 0;
        return (uint64_t)length << 16 | (uint64_t)shown[0] << 8 | shown[last];
    }
    const uint64_t step = 0x9e3779b97f4a7c15u;
    uint64_t word = (uint64_t)length * step;
    for (size_t i = 0; i < length; i++) {
        word = (word ^ bytes[i]) * step;
    }
    return word;
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
