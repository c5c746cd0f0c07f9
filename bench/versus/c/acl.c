/* DPDK's classifier, rte_acl, behind four plain functions.
 *
 * A packet is 16 bytes, numbers in network order, as rte_acl wants them:
 *   protocol u8, 3 bytes unused, source u32, destination u32, ports 2 x u16.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_acl.h>
#include <rte_eal.h>
#include <rte_log.h>
#include <rte_memory.h>

#include <sys/mman.h>

/* The same in Rust, `Tuple`. */
struct tuple {
    uint32_t source, destination;
    uint16_t source_port_low, source_port_high;
    uint16_t destination_port_low, destination_port_high;
    uint8_t source_length, destination_length, protocol, protocol_mask;
};

RTE_ACL_RULE_DEF(acl_rule, 5);

static struct rte_acl_field_def fields[5] = {
    {RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, 0},
    {RTE_ACL_FIELD_TYPE_MASK, 4, 1, 1, 4},
    {RTE_ACL_FIELD_TYPE_MASK, 4, 2, 2, 8},
    {RTE_ACL_FIELD_TYPE_RANGE, 2, 3, 3, 12},
    {RTE_ACL_FIELD_TYPE_RANGE, 2, 4, 3, 14},
};

static int advise_segment(const struct rte_memseg_list *list, const struct rte_memseg *segment, void *unused) {
    (void)list;
    (void)unused;
    madvise(segment->addr, segment->len, MADV_HUGEPAGE);
    return 0;
}

static int advise_list(const struct rte_memseg_list *list, void *unused) {
    (void)unused;
    madvise(list->base_va, list->len, MADV_HUGEPAGE);
    return 0;
}

/* Starts DPDK without devices, in small pages (0), in memory that is offered to the kernel for huge
 * ones (1), or in reserved huge ones (2). Zero, or less on failure. */
int acl_start(int pages, int megabytes) {
    char memory[16];
    snprintf(memory, sizeof memory, "%d", megabytes);
    char *arguments[] = {"versus",      "--no-pci",  "--no-shconf",
                         "--no-telemetry", "--log-level=1", "--force-max-simd-bitwidth=512",
                         "-m",          memory,      pages == 2 ? NULL : "--no-huge",
                         NULL};
    if (rte_eal_init(pages == 2 ? 8 : 9, arguments) < 0) return -1;
    if (pages == 1) {
        rte_memseg_list_walk(advise_list, NULL);
        rte_memseg_walk(advise_segment, NULL);
    }
    return 0;
}

const char *acl_version(void) {
    extern const char *rte_version(void);
    return rte_version();
}

/* Builds the tables; earlier rules win. */
struct rte_acl_ctx *acl_build(const struct tuple *tuples, uint32_t count, uint64_t most_bytes) {
    struct rte_acl_param param;
    memset(&param, 0, sizeof param);
    char name[32];
    static int serial;
    snprintf(name, sizeof name, "versus%d", serial++);
    param.name = name;
    param.socket_id = -1;
    param.rule_size = RTE_ACL_RULE_SZ(5);
    param.max_rule_num = count;
    struct rte_acl_ctx *acl = rte_acl_create(&param);
    if (!acl)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct tuple *t = &tuples[i];
        struct acl_rule rule;
        memset(&rule, 0, sizeof rule);
        rule.data.category_mask = 1;
        rule.data.priority = (int32_t)(count - i);
        rule.data.userdata = i + 1;
        rule.field[0].value.u8 = t->protocol;
        rule.field[0].mask_range.u8 = t->protocol_mask;
        rule.field[1].value.u32 = t->source;
        rule.field[1].mask_range.u32 = t->source_length;
        rule.field[2].value.u32 = t->destination;
        rule.field[2].mask_range.u32 = t->destination_length;
        rule.field[3].value.u16 = t->source_port_low;
        rule.field[3].mask_range.u16 = t->source_port_high;
        rule.field[4].value.u16 = t->destination_port_low;
        rule.field[4].mask_range.u16 = t->destination_port_high;
        if (rte_acl_add_rules(acl, (struct rte_acl_rule *)&rule, 1) != 0) {
            rte_acl_free(acl);
            return NULL;
        }
    }
    struct rte_acl_config config;
    memset(&config, 0, sizeof config);
    config.num_categories = 1;
    config.num_fields = 5;
    memcpy(config.defs, fields, sizeof fields);
    config.max_size = most_bytes;
    if (rte_acl_build(acl, &config) != 0) {
        rte_acl_free(acl);
        return NULL;
    }
    return acl;
}

/* One of rte_acl's ways; zero if this processor has it. */
int acl_choose(struct rte_acl_ctx *acl, int algorithm) {
    return rte_acl_set_ctx_classify(acl, (enum rte_acl_classify_alg)algorithm);
}

/* Classifies packets, so many at a time; a result is a rule's place plus one, or zero. */
void acl_classify(const struct rte_acl_ctx *acl, const uint8_t **packets, uint32_t *results,
                  uint32_t count, uint32_t batch) {
    for (uint32_t i = 0; i < count; i += batch) {
        uint32_t part = count - i < batch ? count - i : batch;
        rte_acl_classify(acl, packets + i, results + i, part, 1);
    }
}

void acl_end(struct rte_acl_ctx *acl) {
    rte_acl_free(acl);
}
