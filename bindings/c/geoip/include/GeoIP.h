/* libGeoIP's interface, version 1.6.12, as whered's libGeoIP.so.1 implements it.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * For programs of the original's interface. Structures, numbers and names are the original's, so
 * that programs that were built with its header run with this library and the other way round. */

#ifndef GEOIP_H
#define GEOIP_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SEGMENT_RECORD_LENGTH 3
#define LARGE_SEGMENT_RECORD_LENGTH 4
#define STANDARD_RECORD_LENGTH 3
#define ORG_RECORD_LENGTH 4
#define MAX_RECORD_LENGTH 4
#define NUM_DB_TYPES (38 + 1)

#define GEOIP_API
#define GEOIP_DATA

typedef struct in6_addr geoipv6_t;

/* An open database. The library allocates it. Programs read its fields, and may write charset. */
typedef struct GeoIPTag {
    FILE *GeoIPDatabase; /* always NULL here */
    char *file_path;
    unsigned char *cache;       /* always NULL here */
    unsigned char *index_cache; /* always NULL here */
    unsigned int *databaseSegments;
    char databaseType;
    time_t mtime;
    int flags;
    off_t size;
    char record_length;
    int charset;
    int record_iter;
    int netmask; /* of the last lookup */
    time_t last_mtime_check;
    off_t dyn_seg_size;
    unsigned int ext_flags;
} GeoIP;

typedef struct GeoIPLookup {
    int netmask;
} GeoIPLookup;

typedef enum { GEOIP_TEREDO_BIT = 0 } GeoIPExtFlags;

typedef enum { GEOIP_CHARSET_ISO_8859_1 = 0, GEOIP_CHARSET_UTF8 = 1 } GeoIPCharset;

typedef struct GeoIPRegionTag {
    char country_code[3];
    char region[3];
} GeoIPRegion;

typedef enum {
    GEOIP_STANDARD = 0,
    GEOIP_MEMORY_CACHE = 1,
    GEOIP_CHECK_CACHE = 2,
    GEOIP_INDEX_CACHE = 4,
    GEOIP_MMAP_CACHE = 8,
    GEOIP_SILENCE = 16
} GeoIPOptions;

typedef enum {
    GEOIP_COUNTRY_EDITION = 1,
    GEOIP_CITY_EDITION_REV1 = 2,
    GEOIP_REGION_EDITION_REV1 = 3,
    GEOIP_ISP_EDITION = 4,
    GEOIP_ORG_EDITION = 5,
    GEOIP_CITY_EDITION_REV0 = 6,
    GEOIP_REGION_EDITION_REV0 = 7,
    GEOIP_PROXY_EDITION = 8,
    GEOIP_ASNUM_EDITION = 9,
    GEOIP_NETSPEED_EDITION = 10,
    GEOIP_DOMAIN_EDITION = 11,
    GEOIP_COUNTRY_EDITION_V6 = 12,
    GEOIP_LOCATIONA_EDITION = 13,
    GEOIP_ACCURACYRADIUS_EDITION = 14,
    GEOIP_CITYCONFIDENCE_EDITION = 15,
    GEOIP_CITYCONFIDENCEDIST_EDITION = 16,
    GEOIP_LARGE_COUNTRY_EDITION = 17,
    GEOIP_LARGE_COUNTRY_EDITION_V6 = 18,
    GEOIP_CITYCONFIDENCEDIST_ISP_ORG_EDITION = 19,
    GEOIP_CCM_COUNTRY_EDITION = 20,
    GEOIP_ASNUM_EDITION_V6 = 21,
    GEOIP_ISP_EDITION_V6 = 22,
    GEOIP_ORG_EDITION_V6 = 23,
    GEOIP_DOMAIN_EDITION_V6 = 24,
    GEOIP_LOCATIONA_EDITION_V6 = 25,
    GEOIP_REGISTRAR_EDITION = 26,
    GEOIP_REGISTRAR_EDITION_V6 = 27,
    GEOIP_USERTYPE_EDITION = 28,
    GEOIP_USERTYPE_EDITION_V6 = 29,
    GEOIP_CITY_EDITION_REV1_V6 = 30,
    GEOIP_CITY_EDITION_REV0_V6 = 31,
    GEOIP_NETSPEED_EDITION_REV1 = 32,
    GEOIP_NETSPEED_EDITION_REV1_V6 = 33,
    GEOIP_COUNTRYCONF_EDITION = 34,
    GEOIP_CITYCONF_EDITION = 35,
    GEOIP_REGIONCONF_EDITION = 36,
    GEOIP_POSTALCONF_EDITION = 37,
    GEOIP_ACCURACYRADIUS_EDITION_V6 = 38
} GeoIPDBTypes;

typedef enum {
    GEOIP_ANON_PROXY = 1,
    GEOIP_HTTP_X_FORWARDED_FOR_PROXY = 2,
    GEOIP_HTTP_CLIENT_IP_PROXY = 3
} GeoIPProxyTypes;

typedef enum {
    GEOIP_UNKNOWN_SPEED = 0,
    GEOIP_DIALUP_SPEED = 1,
    GEOIP_CABLEDSL_SPEED = 2,
    GEOIP_CORPORATE_SPEED = 3
} GeoIPNetspeedValues;

/* Tables by type, and by country number. */
extern char **GeoIPDBFileName;
extern GEOIP_DATA const char *GeoIPDBDescription[NUM_DB_TYPES];
extern char *GeoIP_custom_directory;
extern GEOIP_DATA const char GeoIP_country_code[256][3];
extern GEOIP_DATA const char GeoIP_country_code3[256][4];
extern GEOIP_DATA const char *GeoIP_country_name[256];
extern GEOIP_DATA const char *GeoIP_utf8_country_name[256];
extern GEOIP_DATA const char GeoIP_country_continent[256][3];

/* Opening and closing. */
void GeoIP_setup_custom_directory(char *dir);
GeoIP *GeoIP_open_type(int type, int flags);
GeoIP *GeoIP_new(int flags);
GeoIP *GeoIP_open(const char *filename, int flags);
int GeoIP_db_avail(int type);
void GeoIP_delete(GeoIP *gi);
int GeoIP_cleanup(void);

/* Countries of addresses: a number, or a static string; 0 or NULL where there is none. */
int GeoIP_id_by_addr(GeoIP *gi, const char *addr);
int GeoIP_id_by_addr_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
int GeoIP_id_by_name(GeoIP *gi, const char *host);
int GeoIP_id_by_name_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
int GeoIP_id_by_ipnum(GeoIP *gi, unsigned long ipnum);
int GeoIP_id_by_ipnum_gl(GeoIP *gi, unsigned long ipnum, GeoIPLookup *gl);
int GeoIP_id_by_addr_v6(GeoIP *gi, const char *addr);
int GeoIP_id_by_addr_v6_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
int GeoIP_id_by_name_v6(GeoIP *gi, const char *host);
int GeoIP_id_by_name_v6_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
int GeoIP_id_by_ipnum_v6(GeoIP *gi, geoipv6_t ipnum);
int GeoIP_id_by_ipnum_v6_gl(GeoIP *gi, geoipv6_t ipnum, GeoIPLookup *gl);
const char *GeoIP_country_code_by_addr(GeoIP *gi, const char *addr);
const char *GeoIP_country_code_by_addr_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
const char *GeoIP_country_code_by_name(GeoIP *gi, const char *host);
const char *GeoIP_country_code_by_name_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
const char *GeoIP_country_code_by_ipnum(GeoIP *gi, unsigned long ipnum);
const char *GeoIP_country_code_by_ipnum_gl(GeoIP *gi, unsigned long ipnum, GeoIPLookup *gl);
const char *GeoIP_country_code_by_addr_v6(GeoIP *gi, const char *addr);
const char *GeoIP_country_code_by_addr_v6_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
const char *GeoIP_country_code_by_name_v6(GeoIP *gi, const char *host);
const char *GeoIP_country_code_by_name_v6_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
const char *GeoIP_country_code_by_ipnum_v6(GeoIP *gi, geoipv6_t ipnum);
const char *GeoIP_country_code_by_ipnum_v6_gl(GeoIP *gi, geoipv6_t ipnum, GeoIPLookup *gl);
const char *GeoIP_country_code3_by_addr(GeoIP *gi, const char *addr);
const char *GeoIP_country_code3_by_addr_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
const char *GeoIP_country_code3_by_name(GeoIP *gi, const char *host);
const char *GeoIP_country_code3_by_name_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
const char *GeoIP_country_code3_by_ipnum(GeoIP *gi, unsigned long ipnum);
const char *GeoIP_country_code3_by_ipnum_gl(GeoIP *gi, unsigned long ipnum, GeoIPLookup *gl);
const char *GeoIP_country_code3_by_addr_v6(GeoIP *gi, const char *addr);
const char *GeoIP_country_code3_by_addr_v6_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
const char *GeoIP_country_code3_by_name_v6(GeoIP *gi, const char *host);
const char *GeoIP_country_code3_by_name_v6_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
const char *GeoIP_country_code3_by_ipnum_v6(GeoIP *gi, geoipv6_t ipnum);
const char *GeoIP_country_code3_by_ipnum_v6_gl(GeoIP *gi, geoipv6_t ipnum, GeoIPLookup *gl);
const char *GeoIP_country_name_by_addr(GeoIP *gi, const char *addr);
const char *GeoIP_country_name_by_addr_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
const char *GeoIP_country_name_by_name(GeoIP *gi, const char *host);
const char *GeoIP_country_name_by_name_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
const char *GeoIP_country_name_by_ipnum(GeoIP *gi, unsigned long ipnum);
const char *GeoIP_country_name_by_ipnum_gl(GeoIP *gi, unsigned long ipnum, GeoIPLookup *gl);
const char *GeoIP_country_name_by_addr_v6(GeoIP *gi, const char *addr);
const char *GeoIP_country_name_by_addr_v6_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
const char *GeoIP_country_name_by_name_v6(GeoIP *gi, const char *host);
const char *GeoIP_country_name_by_name_v6_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
const char *GeoIP_country_name_by_ipnum_v6(GeoIP *gi, geoipv6_t ipnum);
const char *GeoIP_country_name_by_ipnum_v6_gl(GeoIP *gi, geoipv6_t ipnum, GeoIPLookup *gl);
int GeoIP_country_id_by_addr(GeoIP *gi, const char *addr);
int GeoIP_country_id_by_addr_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
int GeoIP_country_id_by_name(GeoIP *gi, const char *host);
int GeoIP_country_id_by_name_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
int GeoIP_country_id_by_addr_v6(GeoIP *gi, const char *addr);
int GeoIP_country_id_by_addr_v6_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
int GeoIP_country_id_by_name_v6(GeoIP *gi, const char *host);
int GeoIP_country_id_by_name_v6_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);

/* Regions: for GeoIPRegion_delete, or filled in the caller's structure. */
GeoIPRegion *GeoIP_region_by_addr(GeoIP *gi, const char *addr);
GeoIPRegion *GeoIP_region_by_addr_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
GeoIPRegion *GeoIP_region_by_name(GeoIP *gi, const char *host);
GeoIPRegion *GeoIP_region_by_name_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
GeoIPRegion *GeoIP_region_by_ipnum(GeoIP *gi, unsigned long ipnum);
GeoIPRegion *GeoIP_region_by_ipnum_gl(GeoIP *gi, unsigned long ipnum, GeoIPLookup *gl);
GeoIPRegion *GeoIP_region_by_addr_v6(GeoIP *gi, const char *addr);
GeoIPRegion *GeoIP_region_by_addr_v6_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
GeoIPRegion *GeoIP_region_by_name_v6(GeoIP *gi, const char *host);
GeoIPRegion *GeoIP_region_by_name_v6_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
GeoIPRegion *GeoIP_region_by_ipnum_v6(GeoIP *gi, geoipv6_t ipnum);
GeoIPRegion *GeoIP_region_by_ipnum_v6_gl(GeoIP *gi, geoipv6_t ipnum, GeoIPLookup *gl);
void GeoIPRegion_delete(GeoIPRegion *gir);
void GeoIP_assign_region_by_inetaddr(GeoIP *gi, unsigned long inetaddr, GeoIPRegion *gir);
void GeoIP_assign_region_by_inetaddr_gl(
    GeoIP *gi, unsigned long inetaddr, GeoIPRegion *gir, GeoIPLookup *gl);
void GeoIP_assign_region_by_inetaddr_v6(GeoIP *gi, geoipv6_t inetaddr, GeoIPRegion *gir);
void GeoIP_assign_region_by_inetaddr_v6_gl(
    GeoIP *gi, geoipv6_t inetaddr, GeoIPRegion *gir, GeoIPLookup *gl);

/* Organizations, providers, systems, domains and the like: for free(). */
char *GeoIP_name_by_addr(GeoIP *gi, const char *addr);
char *GeoIP_name_by_addr_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
char *GeoIP_org_by_addr(GeoIP *gi, const char *addr);
char *GeoIP_name_by_name(GeoIP *gi, const char *host);
char *GeoIP_name_by_name_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
char *GeoIP_org_by_name(GeoIP *gi, const char *host);
char *GeoIP_name_by_ipnum(GeoIP *gi, unsigned long ipnum);
char *GeoIP_name_by_ipnum_gl(GeoIP *gi, unsigned long ipnum, GeoIPLookup *gl);
char *GeoIP_org_by_ipnum(GeoIP *gi, unsigned long ipnum);
char *GeoIP_name_by_addr_v6(GeoIP *gi, const char *addr);
char *GeoIP_name_by_addr_v6_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
char *GeoIP_org_by_addr_v6(GeoIP *gi, const char *addr);
char *GeoIP_name_by_name_v6(GeoIP *gi, const char *host);
char *GeoIP_name_by_name_v6_gl(GeoIP *gi, const char *host, GeoIPLookup *gl);
char *GeoIP_org_by_name_v6(GeoIP *gi, const char *host);
char *GeoIP_name_by_ipnum_v6(GeoIP *gi, geoipv6_t ipnum);
char *GeoIP_name_by_ipnum_v6_gl(GeoIP *gi, geoipv6_t ipnum, GeoIPLookup *gl);
char *GeoIP_org_by_ipnum_v6(GeoIP *gi, geoipv6_t ipnum);

/* The first and last address with the same answer: for GeoIP_range_by_ip_delete. IPv4 only. */
char **GeoIP_range_by_ip(GeoIP *gi, const char *addr);
char **GeoIP_range_by_ip_gl(GeoIP *gi, const char *addr, GeoIPLookup *gl);
void GeoIP_range_by_ip_delete(char **ptr);

/* Countries by number, numbers by code. */
const char *GeoIP_code_by_id(int id);
const char *GeoIP_code3_by_id(int id);
const char *GeoIP_name_by_id(int id);
const char *GeoIP_country_name_by_id(GeoIP *gi, int id);
const char *GeoIP_continent_by_id(int id);
int GeoIP_id_by_code(const char *country);
unsigned GeoIP_num_countries(void);

/* Names and time zones of regions: static strings. */
const char *GeoIP_region_name_by_code(const char *country_code, const char *region_code);
const char *GeoIP_time_zone_by_country_and_region(
    const char *country_code, const char *region_code);

/* What a handle is, and how it is set. GeoIP_database_info is for free(). */
char *GeoIP_database_info(GeoIP *gi);
unsigned char GeoIP_database_edition(GeoIP *gi);
int GeoIP_charset(GeoIP *gi);
int GeoIP_set_charset(GeoIP *gi, int charset);
int GeoIP_enable_teredo(GeoIP *gi, int true_false);
int GeoIP_teredo(GeoIP *gi);
int GeoIP_last_netmask(GeoIP *gi);
const char *GeoIP_lib_version(void);

/* Addresses. GeoIP_num_to_addr and _GeoIP_iso_8859_1__utf8 are for free(). */
unsigned long GeoIP_addr_to_num(const char *addr);
char *GeoIP_num_to_addr(unsigned long ipnum);
char *_GeoIP_iso_8859_1__utf8(const char *iso);
int GeoIP_is_private_ipnum_v4(unsigned long ipnum);
int GeoIP_is_private_v4(const char *addr);

/* Imported by some programs, though in no header of the original. */
unsigned long _GeoIP_lookupaddress(const char *host);
geoipv6_t _GeoIP_lookupaddress_v6(const char *host);
geoipv6_t _GeoIP_addr_to_num_v6(const char *addr);
unsigned int _GeoIP_seek_record(GeoIP *gi, unsigned long ipnum);
unsigned int _GeoIP_seek_record_gl(GeoIP *gi, unsigned long ipnum, GeoIPLookup *gl);
unsigned int _GeoIP_seek_record_v6(GeoIP *gi, geoipv6_t ipnum);
unsigned int _GeoIP_seek_record_v6_gl(GeoIP *gi, geoipv6_t ipnum, GeoIPLookup *gl);
void _GeoIP_setup_dbfilename(void);
char *_GeoIP_full_path_to(const char *file_name);
int __GEOIP_V6_IS_NULL(geoipv6_t ipnum);
void __GEOIP_PREPARE_TEREDO(geoipv6_t *ipnum);

#ifdef __cplusplus
}
#endif

#endif
