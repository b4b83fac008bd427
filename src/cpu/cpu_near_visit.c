/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which groups of the data the queries of a slot have to see, and in which order. In few dims groups go by the gap
 * between boxes, and the first one beyond the largest radius ends the visits; in many dims, where gaps are mostly 0,
 * they go by the distance of centroids. Groups of equal keys go by their lowest id: among many equal rows the k nearest
 * are those of the lowest ids, and groups without a lower one are left out.
 */
#include <math.h>
#include <string.h>

#include "cpu_near.h"

static bool by_gap(const nf_near_run *run)
{
    return run->data->dims <= NF_NEAR_GAP_DIMS;
}

static const float *query_box(const nf_near_run *run, uint32_t group)
{
    return nf_cpu_box(run->queries, 0, group);
}

static float centroid_square(const nf_near_run *run, uint32_t query_group, uint32_t group)
{
    const uint32_t dims = run->data->dims;
    return run->kernels->distance_square(run->queries->centroid + (size_t)query_group * dims,
                                         run->data->centroid + (size_t)group * dims, dims);
}

/* ---- the first group ---- */

typedef struct nearest {
    uint32_t query_group, group;
    float    square;
} nearest;

static void descend(const nf_near_run *run, nearest *best, uint32_t level, uint32_t from, uint32_t to)
{
    const uint32_t dims = run->data->dims;
    for (uint32_t box = from; box < to; box++) {
        const float gap =
            run->kernels->gap_square(query_box(run, best->query_group), nf_cpu_box(run->data, level, box), dims);
        if (!(gap < best->square)) continue;
        if (level > 0) {
            const uint32_t below = run->data->level[level - 1].count, end = (box + 1) * NF_FANOUT;
            descend(run, best, level - 1, box * NF_FANOUT, end < below ? end : below);
            continue;
        }
        const float square = centroid_square(run, best->query_group, box);
        if (square < best->square) {
            best->square = square;
            best->group = box;
        }
    }
}

uint32_t nf_near_first_group(const nf_near_run *run, uint32_t query_group)
{
    nearest        best = {.query_group = query_group, .square = HUGE_VALF};
    const uint32_t top = run->data->level_count - 1;

    if (run->self_join) return query_group;
    if (by_gap(run)) {
        descend(run, &best, top, 0, run->data->level[top].count);
        return best.group;
    }
    for (uint32_t group = 0; group < run->data->group_count; group++) {
        const float square = centroid_square(run, query_group, group);
        if (square < best.square) {
            best.square = square;
            best.group = group;
        }
    }
    return best.group;
}

/* ---- listing ---- */

/* Whether the balls around two groups are within the slot's largest radius. */
static bool balls_meet(const nf_near_run *run, const nf_near_slot *slot, uint32_t group, float square)
{
    const double reach = slot->largest + (double)run->data->spread[group] + (double)run->queries->spread[slot->group];
    return !(square > (float)(reach * reach * run->widening + run->underflow));
}

bool nf_near_meets(const nf_near_run *run, const nf_near_slot *slot, uint32_t group)
{
    const float *box = nf_cpu_box(run->data, 0, group);
    if (run->kernels->gap_square(query_box(run, slot->group), box, run->data->dims) > slot->largest_square)
        return false;
    return by_gap(run) || balls_meet(run, slot, group, centroid_square(run, slot->group, group));
}

static void want(const nf_near_run *run, nf_near_worker *worker, uint32_t slot, uint32_t group, float key)
{
    if (worker->slots_of[group] == 0) {
        worker->visits[worker->visit_count++] = run->rank[group];
        worker->key[group] = key;
    }
    worker->slots_of[group] |= (uint8_t)(1u << slot);
    if (key < worker->key[group]) worker->key[group] = key;
}

static void list_below(const nf_near_run *run, nf_near_worker *worker, uint32_t number, uint32_t level, uint32_t from,
                       uint32_t to)
{
    const nf_near_slot *slot = &worker->slots[number];
    const float        *own = query_box(run, slot->group);

    for (uint32_t box = from; box < to; box++) {
        const float gap = run->kernels->gap_square(own, nf_cpu_box(run->data, level, box), run->data->dims);
        if (gap > slot->largest_square) continue;
        if (level > 0) {
            const uint32_t below = run->data->level[level - 1].count, end = (box + 1) * NF_FANOUT;
            list_below(run, worker, number, level - 1, box * NF_FANOUT, end < below ? end : below);
            continue;
        }
        if (box >= slot->seed.from && box < slot->seed.to) continue;
        float key = gap;
        if (!by_gap(run)) {
            key = centroid_square(run, slot->group, box);
            if (!balls_meet(run, slot, box, key)) continue;
        }
        want(run, worker, number, box, key);
    }
}

static void sift_down(uint64_t *heap, uint64_t count, uint64_t at)
{
    const uint64_t entry = heap[at];
    for (uint64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && heap[child + 1] < heap[child]) child++;
        if (entry <= heap[child]) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = entry;
}

void nf_near_list(const nf_near_run *run, nf_near_worker *worker, uint32_t slots)
{
    const uint32_t top = run->data->level_count - 1;

    worker->visit_count = 0;
    for (uint32_t s = 0; s < slots; s++) list_below(run, worker, s, top, 0, run->data->level[top].count);
    for (uint64_t i = 0; i < worker->visit_count; i++) {
        uint32_t bits; /* of a key that is not negative: they order as it does */
        memcpy(&bits, &worker->key[run->of_rank[worker->visits[i]]], sizeof bits);
        worker->visits[i] |= (uint64_t)bits << 32;
    }
    for (uint64_t i = worker->visit_count / 2; i-- > 0;) sift_down(worker->visits, worker->visit_count, i);
}

bool nf_near_next(const nf_near_run *run, nf_near_worker *worker, uint32_t slots, uint32_t *group)
{
    if (worker->visit_count == 0) return false;
    const uint64_t entry = worker->visits[0];
    const uint32_t bits = (uint32_t)(entry >> 32);
    float          key, largest = 0.0f;

    memcpy(&key, &bits, sizeof key);
    for (uint32_t s = 0; s < slots && by_gap(run); s++) largest = fmaxf(largest, worker->slots[s].largest_square);
    if (by_gap(run) && key > largest) return false;
    worker->visits[0] = worker->visits[--worker->visit_count];
    if (worker->visit_count > 0) sift_down(worker->visits, worker->visit_count, 0);
    *group = run->of_rank[(uint32_t)entry];
    return true;
}

/* ---- single queries ---- */

uint64_t nf_near_rows(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t group)
{
    const uint32_t dims = run->data->dims;
    const float   *low = nf_cpu_box(run->data, 0, group), *high = low + dims;

    if (run->slack != 0.0) { /* queries are wider than binary32: what their columns lost is given to the box */
        for (uint32_t k = 0; k < run->test_dims; k++) {
            worker->low[k] = nextafterf((float)((double)low[k] - run->slack), -HUGE_VALF);
            worker->high[k] = nextafterf((float)((double)high[k] + run->slack), HUGE_VALF);
        }
        low = worker->low;
        high = worker->high;
    }
    uint64_t rows = run->kernels->rows_near_box(slot->columns, low, high, run->test_dims, slot->square) & slot->all;
    for (uint64_t left = rows & slot->settled; left != 0; left &= left - 1) {
        const uint32_t q = (uint32_t)__builtin_ctzll(left);
        if (nf_near_no_lower_id(run, slot, q, group)) rows &= ~(1ull << q);
    }
    return rows;
}
