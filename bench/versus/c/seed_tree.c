/*
 * The binary tree of prefixes that a firewall author timed in 2007, written anew: one node a bit,
 * walked from the highest bit on until a member ends or the way does.
 *
 * Three ways to choose the child, as he tried them:
 *   0  a branch on the bit under a mask that moves down
 *   1  the highest bit as the index of the child, the address moving up
 *   2  a branch on the sign, the address moving up
 */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct node {
    struct node *child[2];
    int is_member;
};

struct seed_tree {
    struct node root;
    size_t nodes;
};

struct seed_tree *seed_tree_new(void) {
    return calloc(1, sizeof(struct seed_tree));
}

/* 0, or -1 when there is no memory. */
int seed_tree_add(struct seed_tree *tree, uint32_t address, int length_bits) {
    struct node *node = &tree->root;
    for (int bit = 0; bit < length_bits; bit++) {
        struct node **child = &node->child[address >> (31 - bit) & 1];
        if (*child == NULL) {
            *child = calloc(1, sizeof **child);
            if (*child == NULL) return -1;
            tree->nodes++;
        }
        node = *child;
    }
    node->is_member = 1;
    return 0;
}

size_t seed_tree_bytes(const struct seed_tree *tree) {
    /* 24 bytes a node and the 8 that malloc keeps beside them. */
    return tree->nodes * (sizeof(struct node) + 8);
}

static inline uint64_t by_mask(const struct node *node, uint32_t address) {
    for (uint32_t mask = 0x80000000u; node != NULL; mask >>= 1) {
        if (node->is_member) return 1;
        if (address & mask)
            node = node->child[1];
        else
            node = node->child[0];
    }
    return 0;
}

static inline uint64_t by_index(const struct node *node, uint32_t address) {
    for (; node != NULL; address <<= 1) {
        if (node->is_member) return 1;
        node = node->child[address >> 31];
    }
    return 0;
}

static inline uint64_t by_sign(const struct node *node, uint32_t address) {
    for (; node != NULL; address <<= 1) {
        if (node->is_member) return 1;
        node = (int32_t)address < 0 ? node->child[1] : node->child[0];
    }
    return 0;
}

uint64_t seed_tree_run(const struct seed_tree *tree, int expression, const uint32_t *addresses,
                       size_t count) {
    uint64_t sum = 0;
    switch (expression) {
    case 0:
        for (size_t i = 0; i < count; i++) sum += by_mask(&tree->root, addresses[i]) * (2 * i + 1);
        break;
    case 1:
        for (size_t i = 0; i < count; i++) sum += by_index(&tree->root, addresses[i]) * (2 * i + 1);
        break;
    default:
        for (size_t i = 0; i < count; i++) sum += by_sign(&tree->root, addresses[i]) * (2 * i + 1);
    }
    return sum;
}

static void free_below(struct node *node) {
    for (int side = 0; side < 2; side++) {
        if (node->child[side] != NULL) {
            free_below(node->child[side]);
            free(node->child[side]);
        }
    }
}

void seed_tree_free(struct seed_tree *tree) {
    free_below(&tree->root);
    free(tree);
}
