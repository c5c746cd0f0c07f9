/* What whered's libGeoIP.so.1 has beside libGeoIP's interface.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program that shall also run with the original looks these functions up with dlsym. */

#ifndef WHERED_GEOIP_H
#define WHERED_GEOIP_H

#include "GeoIPCity.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fill a city record in the caller's memory. Nothing is allocated, and GeoIPRecord_delete must not
 * be called: region, city and postal_code are in `memory`, of which 256 bytes are enough for all
 * files of MaxMind.
 *
 * 1: found. 0: there is none, and `record` is as it was. -1: found, but `memory` is too small, and
 * strings that did not fit are NULL. */
int whered_geoip_record_by_addr(
    GeoIP *gi, const char *addr, GeoIPRecord *record, void *memory, size_t size_bytes);
int whered_geoip_record_by_addr_v6(
    GeoIP *gi, const char *addr, GeoIPRecord *record, void *memory, size_t size_bytes);
int whered_geoip_record_by_ipnum(
    GeoIP *gi, unsigned long ipnum, GeoIPRecord *record, void *memory, size_t size_bytes);
int whered_geoip_record_by_ipnum_v6(
    GeoIP *gi, geoipv6_t ipnum, GeoIPRecord *record, void *memory, size_t size_bytes);

/* How many bytes a handle's data takes in memory of its own: file, index and records. */
size_t whered_geoip_memory_bytes(GeoIP *gi);

#ifdef __cplusplus
}
#endif

#endif
