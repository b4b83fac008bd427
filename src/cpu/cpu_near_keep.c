/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a query keeps: the k least (delivered distance, id) so far, in the caller's own arrays. Few are kept in order; many
 * in a heap with the greatest on top, which is sorted in the end.
 */
#include <math.h>

#include "cpu_near.h"
#include "matrix/matrix_exact.h"

#define MOST_SORTED 48u /* up to this k neighbours are kept in order */
#define MOST_AT_ONCE 256u

typedef struct kept {
    int64_t *ids;
    double  *distances;
} kept;

static kept kept_of(const nf_near_run *run, const nf_near_slot *slot, uint32_t q)
{
    const uint64_t at = (uint64_t)run->queries->ids[slot->begin + q] * run->k;
    return (kept){.ids = run->ids + at, .distances = run->distances + at};
}

static inline bool before(double a, int64_t a_id, double b, int64_t b_id)
{
    return a < b || (a == b && a_id < b_id);
}

static void insert(const kept *to, uint32_t at, double distance, int64_t id)
{
    for (; at > 0 && before(distance, id, to->distances[at - 1], to->ids[at - 1]); at--) {
        to->distances[at] = to->distances[at - 1];
        to->ids[at] = to->ids[at - 1];
    }
    to->distances[at] = distance;
    to->ids[at] = id;
}

/* Puts an entry at place at of a heap or further down, where it belongs. */
static void sift_down(const kept *to, uint32_t at, uint32_t count, double distance, int64_t id)
{
    for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count &&
            before(to->distances[child], to->ids[child], to->distances[child + 1], to->ids[child + 1])) {
            child++;
        }
        if (!before(distance, id, to->distances[child], to->ids[child])) break;
        to->distances[at] = to->distances[child];
        to->ids[at] = to->ids[child];
        at = child;
    }
    to->distances[at] = distance;
    to->ids[at] = id;
}

static void sift_up(const kept *to, uint32_t at, double distance, int64_t id)
{
    while (at > 0) {
        const uint32_t parent = (at - 1) / 2;
        if (!before(to->distances[parent], to->ids[parent], distance, id)) break;
        to->distances[at] = to->distances[parent];
        to->ids[at] = to->ids[parent];
        at = parent;
    }
    to->distances[at] = distance;
    to->ids[at] = id;
}

/* ---- distances ---- */

static void general_distances(const nf_near_run *run, nf_near_worker *worker, uint32_t position, const uint32_t *at,
                              uint32_t count, double *out)
{
    nf_cpu_row_f64(run->queries, position, worker->x);
    for (uint32_t i = 0; i < count; i++) {
        nf_cpu_row_f64(run->data, at[i], worker->y);
        out[i] = nf_exact_distance(worker->x, worker->y, run->data->dims);
    }
}

/* The delivered distances, as cpu_deliver.c computes them. */
static void delivered(const nf_near_run *run, nf_near_worker *worker, uint32_t position, const uint32_t *at, uint32_t count,
                      double *out)
{
    const nf_points *data = run->data, *queries = run->queries;

    if (!run->same_store) {
        general_distances(run, worker, position, at, count, out);
        return;
    }
    run->kernels->sums(data->store, (const char *)queries->rows + position * queries->row_bytes, data->rows,
                       data->row_bytes, data->dims, at, count, out);
    if (data->store == NF_STORE_F64) {
        for (uint32_t i = 0; i < count; i++) {
            if (out[i] >= NF_SUM_SMALL && out[i] <= NF_SUM_LARGE) {
                out[i] = sqrt(out[i]);
            } else {
                general_distances(run, worker, position, at + i, 1, out + i);
            }
        }
        return;
    }
    run->kernels->roots(out, count, HUGE_VAL);
}

/* ---- offering ---- */

/* The query has k neighbours: nothing beyond the last one's distance matters any more. */
static void lower_radius(const nf_near_run *run, nf_near_slot *slot, uint32_t q, double last)
{
    const double radius = last == 0.0 ? 0.0 : nextafter(last * run->factor, HUGE_VAL);
    const double square = radius * radius * run->widening + run->underflow;
    slot->radius[q] = radius;
    slot->square[q] = nextafterf((float)square, HUGE_VALF);
    if (last == 0.0) slot->settled |= 1ull << q;
}

void nf_near_offer(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t q, const uint32_t *at,
                   uint32_t count)
{
    const kept     to = kept_of(run, slot, q);
    const uint32_t k = run->k, *ids = run->data->ids;
    const bool     sorted = k <= MOST_SORTED;
    const double  *last = sorted ? &to.distances[k - 1] : &to.distances[0];
    double         distances[MOST_AT_ONCE];
    uint32_t       found = slot->found[q];
    bool           changed = false;

    delivered(run, worker, slot->begin + q, at, count, distances);
    worker->rechecked += count;
    for (uint32_t i = 0; i < count; i++) {
        if (found == k && distances[i] > *last) continue;
        const int64_t id = ids[at[i]];
        if (found < k) {
            (sorted ? insert : sift_up)(&to, found++, distances[i], id);
            changed = found == k;
        } else if (before(distances[i], id, *last, sorted ? to.ids[k - 1] : to.ids[0])) {
            if (sorted) {
                insert(&to, k - 1, distances[i], id);
            } else {
                sift_down(&to, 0, k, distances[i], id);
            }
            changed = true;
        }
    }
    slot->found[q] = found;
    if (changed) lower_radius(run, slot, q, *last);
}

bool nf_near_no_lower_id(const nf_near_run *run, const nf_near_slot *slot, uint32_t q, uint32_t group)
{
    const kept of = kept_of(run, slot, q);
    return run->lowest_id[group] > of.ids[run->k <= MOST_SORTED ? run->k - 1 : 0];
}

void nf_near_finish(const nf_near_run *run, const nf_near_slot *slot, uint32_t q)
{
    const kept     of = kept_of(run, slot, q);
    const uint32_t found = slot->found[q];

    for (uint32_t count = found; run->k > MOST_SORTED && count > 1; count--) {
        const double  distance = of.distances[count - 1];
        const int64_t id = of.ids[count - 1];
        of.distances[count - 1] = of.distances[0];
        of.ids[count - 1] = of.ids[0];
        sift_down(&of, 0, count - 1, distance, id);
    }
    for (uint32_t i = found; i < run->k; i++) {
        of.ids[i] = -1;
        of.distances[i] = HUGE_VAL;
    }
    if (run->counts != NULL) run->counts[run->queries->ids[slot->begin + q]] = found;
}
