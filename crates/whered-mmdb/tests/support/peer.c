/*
 * Asks libGeoIP: the other side of tests/libgeoip.rs, which compiles it.
 *
 *   peer FILE 4|6 id|region|name|record < addresses
 *
 * One line an address: the netmask and what the library says, separated by tabs; a missing text is
 * "-". Texts are UTF-8.
 */
#include <GeoIP.h>
#include <GeoIPCity.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *shown(const char *text) { return text && *text ? text : "-"; }

static void print_record(GeoIP *database, int is_ipv6, const char *address)
{
    GeoIPRecord *record = is_ipv6 ? GeoIP_record_by_addr_v6(database, address)
                                  : GeoIP_record_by_addr(database, address);
    if (record == NULL) {
        printf("nothing\n");
        return;
    }
    printf("%d\t%s\t%s\t%s\t%s\t%.4f\t%.4f\t%d\t%d\n", record->netmask,
           shown(record->country_code), shown(record->region), shown(record->city),
           shown(record->postal_code), record->latitude, record->longitude, record->metro_code,
           record->area_code);
    GeoIPRecord_delete(record);
}

static void print_region(GeoIP *database, const char *address)
{
    GeoIPLookup lookup;
    GeoIPRegion *region = GeoIP_region_by_addr_gl(database, address, &lookup);
    /* The older edition says "--" where there is nothing. */
    if (region == NULL || region->country_code[0] == 0 || region->country_code[0] == '-') {
        printf("nothing\n");
    } else {
        printf("%d\t%s\t%s\n", lookup.netmask, region->country_code, shown(region->region));
    }
    if (region != NULL) {
        GeoIPRegion_delete(region);
    }
}

static void print_name(GeoIP *database, int is_ipv6, const char *address)
{
    GeoIPLookup lookup;
    char *name = is_ipv6 ? GeoIP_name_by_addr_v6_gl(database, address, &lookup)
                         : GeoIP_name_by_addr_gl(database, address, &lookup);
    if (name == NULL) {
        printf("nothing\n");
        return;
    }
    printf("%d\t%s\n", lookup.netmask, name);
    free(name);
}

static void print_id(GeoIP *database, int is_ipv6, const char *address)
{
    GeoIPLookup lookup;
    int id = is_ipv6 ? GeoIP_id_by_addr_v6_gl(database, address, &lookup)
                     : GeoIP_id_by_addr_gl(database, address, &lookup);
    if (id <= 0) {
        printf("nothing\n");
    } else {
        printf("%d\t%d\t%s\n", lookup.netmask, id, GeoIP_code_by_id(id));
    }
}

int main(int count, char **arguments)
{
    char line[200];
    GeoIP *database;
    int is_ipv6;
    if (count != 4) {
        return 2;
    }
    database = GeoIP_open(arguments[1], GEOIP_MEMORY_CACHE);
    if (database == NULL) {
        return 1;
    }
    GeoIP_set_charset(database, GEOIP_CHARSET_UTF8);
    is_ipv6 = arguments[2][0] == '6';
    printf("%s\n", GeoIPDBDescription[(int)database->databaseType]);
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = 0;
        switch (arguments[3][1]) {
        case 'd': print_id(database, is_ipv6, line); break;
        case 'a': print_name(database, is_ipv6, line); break;
        default:
            if (strcmp(arguments[3], "region") == 0) {
                print_region(database, line);
            } else {
                print_record(database, is_ipv6, line);
            }
        }
    }
    GeoIP_delete(database);
    return 0;
}
