/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a query keeps: the k least (delivered distance, id) so far, in order, in the caller's own arrays. The seed fills
 * them at once. Later rows come a few at a time: few kept ones make room for them at their place, many let them wait
 * until it is worth while to sort all again.
 */
#include <math.h>
#include <string.h>

#include "cpu_near.h"
#include "matrix/matrix_exact.h"

#define MOST_PICKED NF_NEAR_FEW /* up to this k the seed is cut by a bound of its k-th distance before it is sorted */
#define MOST_BUCKETS NF_NEAR_BUCKETS
#define MOST_IN_BUCKET 24u

typedef struct kept {
    int64_t *ids;
    double  *distances;
} kept;

/* Few neighbours are kept close together until the end: rows of the caller's arrays lie as the ids do, far apart. */
static kept kept_of(const nf_near_run *run, nf_near_slot *slot, uint32_t q)
{
    if (run->k <= NF_NEAR_FEW)
        return (kept){.ids = slot->few_ids + q * NF_NEAR_FEW, .distances = slot->few + q * NF_NEAR_FEW};
    const uint64_t at = (uint64_t)run->queries->ids[slot->begin + q] * run->k;
    return (kept){.ids = run->ids + at, .distances = run->distances + at};
}

static inline bool before(const nf_near_entry *a, const nf_near_entry *b)
{
    return a->distance < b->distance || (a->distance == b->distance && a->id < b->id);
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

/* Sums of squares as the distances are the roots of; rows of the same store. */
static void sums_of(const nf_near_run *run, uint32_t position, const uint32_t *at, uint32_t count, double *out)
{
    const nf_points *data = run->data, *queries = run->queries;
    run->kernels->sums(data->store, (const char *)queries->rows + position * queries->row_bytes, data->rows,
                       data->row_bytes, data->dims, at, count, out);
}

/* The delivered distances, as cpu_deliver.c computes them. */
static void delivered(const nf_near_run *run, nf_near_worker *worker, uint32_t position, const uint32_t *at,
                      uint32_t count, double *out)
{
    if (!run->same_store) {
        general_distances(run, worker, position, at, count, out);
        return;
    }
    sums_of(run, position, at, count, out);
    if (run->data->store == NF_STORE_F64) {
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

/* ---- sorting ---- */

static void insertion_sort(nf_near_entry *entries, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const nf_near_entry entry = entries[i];
        uint32_t            at = i;
        for (; at > 0 && before(&entry, &entries[at - 1]); at--) entries[at] = entries[at - 1];
        entries[at] = entry;
    }
}

/* Sorts entries; spare: as long. */
static void merge_sort(nf_near_entry *entries, nf_near_entry *spare, uint32_t count)
{
    nf_near_entry *from = entries, *to = spare;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t begin = 0; begin < count; begin += 2 * width) {
            const uint32_t middle = begin + width < count ? begin + width : count;
            const uint32_t end = middle + width < count ? middle + width : count;
            uint32_t       left = begin, right = middle;
            for (uint32_t out = begin; out < end; out++) {
                const bool take_right = right < end && (left >= middle || before(&from[right], &from[left]));
                to[out] = take_right ? from[right++] : from[left++];
            }
        }
        nf_near_entry *held = from;
        from = to;
        to = held;
    }
    if (from != entries) memcpy(entries, from, count * sizeof *entries);
}

/* Sorts by distributing over buckets of equal width; entries that crowd into a few of them take a merge sort. Which
 * bucket is a monotone function of the distance, rounding included. */
static void sort_entries(nf_near_worker *worker, uint32_t count)
{
    nf_near_entry *entries = worker->entries, *spare = worker->spare;
    const uint32_t buckets = count <= 512 ? 256 : MOST_BUCKETS;
    uint32_t      *start = worker->buckets, most = 0, sum = 0;
    double         low = entries[0].distance, high = low;

    for (uint32_t i = 1; i < count; i++) {
        low = entries[i].distance < low ? entries[i].distance : low;
        high = entries[i].distance > high ? entries[i].distance : high;
    }
    const double scale = (double)(buckets - 1) / (high - low);
    if (!(high > low) || !isfinite(high) || !isfinite(scale) || scale == 0.0) {
        merge_sort(entries, spare, count);
        return;
    }
    memset(start, 0, buckets * sizeof *start);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t bucket = (uint32_t)((entries[i].distance - low) * scale);
        worker->bucket_of[i] = (uint16_t)(bucket < buckets ? bucket : buckets - 1);
        start[worker->bucket_of[i]]++;
    }
    for (uint32_t b = 0; b < buckets; b++) {
        const uint32_t here = start[b];
        most = here > most ? here : most;
        start[b] = sum;
        sum += here;
    }
    if (most > MOST_IN_BUCKET) {
        merge_sort(entries, spare, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) spare[start[worker->bucket_of[i]]++] = entries[i];
    worker->entries = spare;
    worker->spare = entries;
    insertion_sort(spare, count);
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

/* A bound of the k-th smallest of count sums, k at most 16: the k-th smallest of 16 minima. */
static double bound_of_kth(const nf_kernels *kernels, const double *sums, uint32_t count, uint32_t k)
{
    double   least[MOST_PICKED], bound = 0.0;
    uint32_t ranks[MOST_PICKED];

    if (count < MOST_PICKED) return HUGE_VAL;
    memcpy(least, sums, sizeof least);
    for (uint32_t i = MOST_PICKED; i + MOST_PICKED <= count; i += MOST_PICKED) {
        for (uint32_t j = 0; j < MOST_PICKED; j++) {
            least[j] = sums[i + j] < least[j] ? sums[i + j] : least[j];
        }
    }
    kernels->ranks(least, ranks);
    for (uint32_t j = 0; j < MOST_PICKED; j++) {
        bound = ranks[j] < k && least[j] > bound ? least[j] : bound; /* of equal ones the rank is that of the first */
    }
    return bound;
}

/* Writes the first k of at most 16 entries in order; false where some are equal, which ranks do not tell apart. */
static bool write_by_rank(const nf_kernels *kernels, const nf_near_entry *entries, uint32_t count, const kept *to,
                          uint32_t k)
{
    double   values[MOST_PICKED];
    uint32_t ranks[MOST_PICKED], sum = 0;

    for (uint32_t i = 0; i < MOST_PICKED; i++) values[i] = i < count ? entries[i].distance : HUGE_VAL;
    kernels->ranks(values, ranks);
    for (uint32_t i = 0; i < count; i++) sum += ranks[i];
    if (sum != count * (count - 1) / 2) return false;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t rank = ranks[i];
        if (rank >= k) continue;
        to->distances[rank] = entries[i].distance;
        to->ids[rank] = entries[i].id;
    }
    return true;
}

/* Entries of the rows at at[] whose distance is at most bound; returns how many. */
static uint32_t pick(const nf_near_run *run, const uint32_t *at, const double *distances, uint32_t count, double bound,
                     nf_near_entry *out)
{
    double         picked_distances[NF_NEAR_AT_ONCE];
    uint32_t       picked_at[NF_NEAR_AT_ONCE];
    const uint32_t picked = run->kernels->pick(distances, at, count, bound, picked_distances, picked_at);
    for (uint32_t i = 0; i < picked; i++) out[i] = (nf_near_entry){picked_distances[i], run->data->ids[picked_at[i]]};
    return picked;
}

/* The entries of a seed, or for a small k a few of them, the k nearest among these. Roots are taken of those alone: a
 * root rounds to at most that of the bound only where the sum is at most a few units of the last place above it. */
static uint32_t seed_entries(const nf_near_run *run, nf_near_worker *worker, uint32_t position, const uint32_t *at,
                             uint32_t count)
{
    double   near[NF_NEAR_AT_ONCE];
    uint32_t near_at[NF_NEAR_AT_ONCE], picked = 0;

    if (run->k <= MOST_PICKED && count >= run->k && count <= NF_NEAR_AT_ONCE && run->same_store &&
        run->data->store != NF_STORE_F64) {
        sums_of(run, position, at, count, worker->distances);
        const double bound = bound_of_kth(run->kernels, worker->distances, count, run->k) * (1.0 + 0x1p-50);
        picked = run->kernels->pick(worker->distances, at, count, bound, near, near_at);
        run->kernels->roots(near, picked, HUGE_VAL);
        for (uint32_t i = 0; i < picked; i++) worker->entries[i] = (nf_near_entry){near[i], run->data->ids[near_at[i]]};
        return picked;
    }
    for (uint32_t begin = 0; begin < count; begin += NF_NEAR_AT_ONCE) {
        const uint32_t part = count - begin < NF_NEAR_AT_ONCE ? count - begin : NF_NEAR_AT_ONCE;
        delivered(run, worker, position, at + begin, part, near);
        picked += pick(run, at + begin, near, part, HUGE_VAL, worker->entries + picked);
    }
    return picked;
}

void nf_near_seed(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t q, const uint32_t *at,
                  uint32_t count)
{
    const kept     to = kept_of(run, slot, q);
    const uint32_t k = run->k, found = count < k ? count : k;
    const uint32_t picked = seed_entries(run, worker, slot->begin + q, at, count);

    worker->rechecked += count;
    slot->found[q] = found;
    slot->waiting[q] = 0;
    if (picked > MOST_PICKED || !write_by_rank(run->kernels, worker->entries, picked, &to, k)) {
        if (picked <= MOST_IN_BUCKET) {
            insertion_sort(worker->entries, picked);
        } else {
            sort_entries(worker, picked);
        }
        for (uint32_t i = 0; i < found; i++) {
            to.distances[i] = worker->entries[i].distance;
            to.ids[i] = worker->entries[i].id;
        }
    }
    if (found == k) lower_radius(run, slot, q, to.distances[k - 1]);
}

/* How many of the first count are before an entry. */
static uint32_t place_of(const kept *of, uint32_t count, const nf_near_entry *entry)
{
    uint32_t begin = 0;
    while (count > 0) {
        const uint32_t half = count / 2, middle = begin + half;
        const double   distance = of->distances[middle];
        const bool less = distance < entry->distance || (distance == entry->distance && of->ids[middle] < entry->id);
        begin = less ? middle + 1 : begin;
        count = less ? count - half - 1 : half;
    }
    return begin;
}

/* Moves [begin, end) up by a few places; what would come to lie at k and beyond goes. */
static void move_up(const kept *of, uint32_t begin, uint32_t end, uint32_t by, uint32_t k)
{
    const uint32_t stop = end + by > k ? k - by : end;
    if (begin >= stop || by >= k) return;
    memmove(of->distances + begin + by, of->distances + begin, (stop - begin) * sizeof *of->distances);
    memmove(of->ids + begin + by, of->ids + begin, (stop - begin) * sizeof *of->ids);
}

/* Takes the waiting entries of a query among the kept ones. Returns whether its radius is smaller now. */
static bool take_waiting(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t q)
{
    const kept     to = kept_of(run, slot, q);
    const uint32_t k = run->k, waiting = slot->waiting[q];
    const double   last = to.distances[k - 1];

    for (uint32_t i = 0; i < k; i++) worker->entries[i] = (nf_near_entry){to.distances[i], (uint32_t)to.ids[i]};
    memcpy(worker->entries + k, slot->entries + (size_t)q * run->wait_room, waiting * sizeof *slot->entries);
    sort_entries(worker, k + waiting);
    for (uint32_t i = 0; i < k; i++) {
        to.distances[i] = worker->entries[i].distance;
        to.ids[i] = worker->entries[i].id;
    }
    slot->waiting[q] = 0;
    if (to.distances[k - 1] == last) return false;
    lower_radius(run, slot, q, to.distances[k - 1]);
    return true;
}

/* Lets entries wait until there is no room: taking many at once is cheaper. */
static bool wait(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t q,
                 const nf_near_entry *entries, uint32_t count)
{
    const bool smaller = slot->waiting[q] + count > run->wait_room && take_waiting(run, worker, slot, q);
    memcpy(slot->entries + (size_t)q * run->wait_room + slot->waiting[q], entries, count * sizeof *entries);
    slot->waiting[q] += count;
    return smaller;
}

bool nf_near_offer(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t q, const uint32_t *at,
                   uint32_t count)
{
    const kept     to = kept_of(run, slot, q);
    const uint32_t k = run->k;
    const double   last = to.distances[k - 1];
    double         distances[NF_TILE];
    nf_near_entry  entries[NF_TILE];

    delivered(run, worker, slot->begin + q, at, count, distances);
    worker->rechecked += count;
    const uint32_t picked = pick(run, at, distances, count, last, entries);
    if (picked == 0) return false;
    if (k > MOST_PICKED) return wait(run, worker, slot, q, entries, picked);
    insertion_sort(entries, picked);
    uint32_t end = k;
    for (uint32_t fresh = picked; fresh-- > 0;) {
        const uint32_t place = place_of(&to, end, &entries[fresh]), out = place + fresh;
        if (out >= k) continue;
        move_up(&to, place, end, fresh + 1, k);
        to.distances[out] = entries[fresh].distance;
        to.ids[out] = entries[fresh].id;
        end = place;
    }
    if (to.distances[k - 1] == last) return false;
    lower_radius(run, slot, q, to.distances[k - 1]);
    return true;
}

bool nf_near_no_lower_id(const nf_near_run *run, nf_near_slot *slot, uint32_t q, uint32_t group)
{
    return run->lowest_id[group] > kept_of(run, slot, q).ids[run->k - 1];
}

void nf_near_finish(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t q)
{
    if (slot->waiting[q] > 0) take_waiting(run, worker, slot, q);
    const kept     of = kept_of(run, slot, q);
    const uint32_t found = slot->found[q], id = run->queries->ids[slot->begin + q];
    int64_t       *ids = run->ids + (uint64_t)id * run->k;
    double        *distances = run->distances + (uint64_t)id * run->k;

    for (uint32_t i = 0; of.ids != ids && i < found; i++) {
        ids[i] = of.ids[i];
        distances[i] = of.distances[i];
    }
    for (uint32_t i = found; i < run->k; i++) {
        ids[i] = -1;
        distances[i] = HUGE_VAL;
    }
    if (run->counts != NULL) run->counts[id] = found;
}
