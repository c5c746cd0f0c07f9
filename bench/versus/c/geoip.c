/*
 * Lookups through libGeoIP, on a legacy country file.
 *
 * A country's number is the record: its share is the number + 1, or 0 without a country.
 */

#include "checksum.h"

#include <GeoIP.h>

struct geoip;

struct geoip *geoip_open(const char *file, int flags) {
    return (struct geoip *)GeoIP_open(file, flags);
}

void geoip_close(struct geoip *geoip) {
    GeoIP_delete((GeoIP *)geoip);
}

const char *geoip_version(void) {
    return GeoIP_lib_version();
}

uint64_t geoip_run_texts(struct geoip *geoip, const char *texts, const uint32_t *starts,
                         size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        int country = GeoIP_id_by_addr((GeoIP *)geoip, texts + starts[i]);
        sum += share_of_record(country != 0, (uint32_t)country);
    }
    return sum;
}

uint64_t geoip_run_numbers(struct geoip *geoip, const uint32_t *addresses, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        int country = GeoIP_id_by_ipnum((GeoIP *)geoip, addresses[i]);
        sum += share_of_record(country != 0, (uint32_t)country);
    }
    return sum;
}
