/* City records of libGeoIP's interface, version 1.6.12, as whered's libGeoIP.so.1 implements it.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * For programs of the original's interface. Structures, numbers and names are the original's, so
 * that programs that were built with its header run with this library and the other way round. */

#ifndef GEOIPCITY_H
#define GEOIPCITY_H

#include "GeoIP.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GEOIP_UNKNOWN_CONF (0x7f)

/* region, city and postal_code are freed by GeoIPRecord_delete; the other strings are static. */
typedef struct GeoIPRecordTag {
    char *country_code;
    char *country_code3;
    char *country_name;
    char *region;
    char *city;
    char *postal_code;
    float latitude;
    float longitude;
    union {
        int metro_code;
        int dma_code;
    };
    int area_code;
    int charset;
    char *continent_code;
    int netmask;
} GeoIPRecord;

GeoIPRecord *GeoIP_record_by_addr(GeoIP *gi, const char *addr);
GeoIPRecord *GeoIP_record_by_name(GeoIP *gi, const char *host);
GeoIPRecord *GeoIP_record_by_ipnum(GeoIP *gi, unsigned long ipnum);
GeoIPRecord *GeoIP_record_by_addr_v6(GeoIP *gi, const char *addr);
GeoIPRecord *GeoIP_record_by_name_v6(GeoIP *gi, const char *host);
GeoIPRecord *GeoIP_record_by_ipnum_v6(GeoIP *gi, geoipv6_t ipnum);
void GeoIPRecord_delete(GeoIPRecord *gir);

int GeoIP_record_id_by_addr(GeoIP *gi, const char *addr);
int GeoIP_record_id_by_addr_v6(GeoIP *gi, const char *addr);
int GeoIP_init_record_iter(GeoIP *gi);
int GeoIP_next_record(GeoIP *gi, GeoIPRecord **gir, int *record_iter);

#ifdef __cplusplus
}
#endif

#endif
