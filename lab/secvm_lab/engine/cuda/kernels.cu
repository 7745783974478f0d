// The kernels of training on a GPU. Integers decide everything: whatever the order of additions, the bytes are the CPU's.
// `tests/rigs/cuda_emulation.py` says in numpy what each of them does, and is held to the reference; `bench gpu` holds
// these to a CPU's bytes.
//
// People lie in blocks of columns, narrow enough for a block's weights, or its counts, to fit shared memory. A person's
// entries of a block are a segment: local column numbers as 16 bits, a value of 3 said three times, filled up to whole
// groups of eight with the number after the block's last column. `starts` has where each segment begins, in groups,
// block after block, and one number more.
//
// Where blocks are many, a person has little in each: a `direct` score reads weights where they lie instead.
//
// A job is four numbers: whose weights or counts, the first and one past the last place of the list, and where the list
// begins; -1 there: the places are the people themselves. A team of `team` threads does one person at a time.

typedef unsigned char u8;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

// ── dice and hashes ─────────────────────────────────────────────────────────────────────────────────────────────────

struct Sip {
    u64 a, b, c, d;
    __device__ Sip(u64 k0, u64 k1)
        : a(k0 ^ 0x736f6d6570736575ull), b(k1 ^ 0x646f72616e646f6dull), c(k0 ^ 0x6c7967656e657261ull),
          d(k1 ^ 0x7465646279746573ull) {}
    static __device__ u64 rotated(u64 x, int bits) { return (x << bits) | (x >> (64 - bits)); }
    __device__ void rounds(int n) {
        for (int i = 0; i < n; i++) {
            a += b, b = rotated(b, 13) ^ a, a = rotated(a, 32);
            c += d, d = rotated(d, 16) ^ c;
            a += d, d = rotated(d, 21) ^ a;
            c += b, b = rotated(b, 17) ^ c, c = rotated(c, 32);
        }
    }
    __device__ void absorb(u64 block) { d ^= block, rounds(2), a ^= block; }
    __device__ u64 finish() { return c ^= 0xff, rounds(4), a ^ b ^ c ^ d; }
};

static __device__ u64 hash_word(u64 k0, u64 k1, u64 word) {
    Sip sip(k0, k1);
    sip.absorb(word), sip.absorb(8ull << 56);
    return sip.finish();
}

// ── rounding ────────────────────────────────────────────────────────────────────────────────────────────────────────

static __device__ i64 shifted_half_even(i64 value, int bits) {
    if (bits == 0) return value;
    i64 whole = value >> bits, rest = value - (whole << bits), half = 1ll << (bits - 1);
    return whole + (rest > half || (rest == half && (whole & 1)));
}

// round_half_even(value * 2^bits / divisor), for 0 < divisor < 2^(62 - bits).
static __device__ i64 divided_half_even(i64 value, i64 divisor, int bits) {
    i64 whole = value / divisor;
    whole -= whole * divisor > value;
    i64 shifted = (value - whole * divisor) << bits, quotient = shifted / divisor;
    i64 rest = shifted - quotient * divisor;
    return (whole << bits) + quotient + (2 * rest > divisor || (2 * rest == divisor && (quotient & 1)));
}

extern "C" {

// ── laying people out ───────────────────────────────────────────────────────────────────────────────────────────────

// Groups of each person in each block. A team is a warp, with `n_blocks` counters in shared memory.
__global__ void count_groups(const i64* indptr, const int* bins, const int* values, i64 n_people, i64 width,
                             i64 n_blocks, i64* groups) {
    extern __shared__ int counters[];
    int narrow = (int)width;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    int* mine = counters + warp * n_blocks;
    for (i64 i = blockIdx.x * (i64)warps + warp; i < n_people; i += gridDim.x * (i64)warps) {
        for (int b = lane; b < n_blocks; b += 32) mine[b] = 0;
        __syncwarp();
        for (i64 j = indptr[i] + lane; j < indptr[i + 1]; j += 32)
            atomicAdd(mine + bins[j] / narrow, values ? values[j] : 1);
        __syncwarp();
        for (int b = lane; b < n_blocks; b += 32) groups[b * n_people + i] = (mine[b] + 7) / 8;
        __syncwarp();
    }
}

__global__ void fill_groups(const i64* indptr, const int* bins, const int* values, i64 n_people, i64 n_bins, i64 width,
                            i64 n_blocks, const i64* starts, unsigned short* locals) {
    extern __shared__ int cursors[];
    int narrow = (int)width;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    int* mine = cursors + warp * n_blocks;
    for (i64 i = blockIdx.x * (i64)warps + warp; i < n_people; i += gridDim.x * (i64)warps) {
        for (int b = lane; b < n_blocks; b += 32) mine[b] = 0;
        __syncwarp();
        for (i64 j = indptr[i] + lane; j < indptr[i + 1]; j += 32) {
            int b = bins[j] / narrow, repeats = values ? values[j] : 1;
            i64 at = 8 * starts[b * n_people + i] + atomicAdd(mine + b, repeats);
            for (int k = 0; k < repeats; k++) locals[at + k] = bins[j] - b * narrow;
        }
        __syncwarp();
        for (int b = lane; b < n_blocks; b += 32) {
            int dummy = min(width, n_bins - (i64)b * width);
            i64 at = 8 * starts[b * n_people + i] + mine[b], end = 8 * starts[b * n_people + i + 1];
            for (; at < end; at++) locals[at] = dummy;
        }
        __syncwarp();
    }
}

// Squared norms of each person in each class of columns, classes x people. One person at a time for all threads of a
// block: everybody's entries are counted, each entry adds its column's count, and the counts are taken back.
__global__ void class_squares(const unsigned short* locals, const i64* starts, i64 n_people, i64 n_bins, i64 width,
                              i64 n_blocks, const u8* classes, i64 n_classes, u64* squares) {
    extern __shared__ int counts[];
    __shared__ u32 sums[16];
    for (int j = threadIdx.x; j <= width; j += blockDim.x) counts[j] = 0;
    for (int b = 0; b < n_blocks; b++) {
        int columns = min(width, n_bins - (i64)b * width);
        for (i64 i = blockIdx.x; i < n_people; i += gridDim.x) {
            i64 first = 8 * starts[b * n_people + i], last = 8 * starts[b * n_people + i + 1];
            if (threadIdx.x < 16) sums[threadIdx.x] = 0;
            for (i64 j = first + threadIdx.x; j < last; j += blockDim.x) atomicAdd(counts + locals[j], 1);
            __syncthreads();
            for (i64 j = first + threadIdx.x; j < last; j += blockDim.x) {
                int local = locals[j];
                if (local < columns) atomicAdd(sums + classes[(i64)b * width + local], (u32)counts[local]);
            }
            __syncthreads();
            for (i64 j = first + threadIdx.x; j < last; j += blockDim.x) counts[locals[j]] = 0;
            if (threadIdx.x < n_classes) squares[threadIdx.x * n_people + i] += sums[threadIdx.x];
            __syncthreads();
        }
    }
}

// ── passes over people ──────────────────────────────────────────────────────────────────────────────────────────────

// Loads of a thread that are under way together: a person of some 1,800 entries in two blocks has four for each.
#define _AHEAD 4

struct Segment {
    i64 first, last;
};

// Where the entries of the person at a place of the list begin and end; nothing beyond the list's end.
static __device__ Segment segment(const i64* starts, const int* list, i64 place, i64 end) {
    if (place >= end) return Segment{0, 0};
    const i64* start = starts + (list ? list[place] : place);
    return Segment{start[0], start[1]};
}

static __device__ i64 of_eight(const int* weights, uint4 q) {
    return (i64)weights[q.x & 0xffff] + weights[q.x >> 16] + weights[q.y & 0xffff] + weights[q.y >> 16] +
           weights[q.z & 0xffff] + weights[q.z >> 16] + weights[q.w & 0xffff] + weights[q.w >> 16];
}

// The same where what fills a group up has no weight of its own.
static __device__ i64 of_eight(const int* weights, uint4 q, int columns) {
    u32 words[4] = {q.x, q.y, q.z, q.w};
    i64 sum = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int low = words[k] & 0xffff, high = words[k] >> 16;
        sum += low < columns ? __ldg(weights + low) : 0;
        sum += high < columns ? __ldg(weights + high) : 0;
    }
    return sum;
}

// out[out_at + place] = the score of each person of a job under int32 weights, models x (bins + 1).
__global__ void __launch_bounds__(1024, 1)
score(const uint4* groups, const i64* starts, i64 n_people, i64 n_bins, i64 width, i64 n_blocks, const int* weights,
      const i64* jobs, const int* lists, const i64* out_at, i64 team, i64 direct, i64* out) {
    extern __shared__ int shared[];
    const i64* job = jobs + 4 * (i64)blockIdx.x;
    const int* model = weights + job[0] * (n_bins + 1);
    const int* list = job[3] < 0 ? 0 : lists + job[3];
    i64* mine = out + out_at[job[0]];
    int wide = (int)team, lane = threadIdx.x % wide, teams = blockDim.x / wide;
    for (int b = 0; b < n_blocks; b++) {
        i64 begin = (i64)b * width;
        int columns = min(width, n_bins - begin);
        if (!direct) {
            __syncthreads();
            for (int j = threadIdx.x; j <= columns; j += blockDim.x) shared[j] = j < columns ? model[begin + j] : 0;
            __syncthreads();
        }
        // Whole warps: those beyond the end go along and write nothing. Where the next person's entries lie is asked
        // for while this one's are on their way.
        i64 base = job[1] + (threadIdx.x / 32) * (32 / wide), place = base + (threadIdx.x & 31) / wide;
        Segment next = segment(starts + b * n_people, list, place, job[2]);
        for (; base < job[2]; base += teams, place += teams) {
            Segment here = next;
            next = segment(starts + b * n_people, list, place + teams, job[2]);
            i64 sum = 0;
            for (i64 g = here.first + lane; g < here.last; g += _AHEAD * wide) {
                uint4 q[_AHEAD];
#pragma unroll
                for (int k = 0; k < _AHEAD; k++)
                    if (g + k * wide < here.last) q[k] = __ldcs(groups + g + k * wide);
#pragma unroll
                for (int k = 0; k < _AHEAD; k++) {
                    if (g + k * wide >= here.last) break;
                    sum += direct ? of_eight(model + begin, q[k], columns) : of_eight(shared, q[k]);
                }
            }
            for (int far = wide / 2; far; far /= 2) sum += __shfl_xor_sync(~0u, sum, far);
            if (place < job[2] && lane == 0) mine[place] = sum + (b ? mine[place] : model[n_bins]);
        }
    }
}

// Adds the people of a job to int32 counts, slots x (bins + 1): an entry of the list is a person and, lowest, a bit that
// says to take the person off.
__global__ void __launch_bounds__(1024, 1)
count(const uint4* groups, const i64* starts, i64 n_people, i64 n_bins, i64 width, i64 n_blocks, const i64* jobs,
      const int* lists, i64 team, int* counts) {
    extern __shared__ int shared[];
    const i64* job = jobs + 4 * (i64)blockIdx.x;
    int* slot = counts + job[0] * (n_bins + 1);
    const int* list = lists + job[3];
    int wide = (int)team, lane = threadIdx.x % wide, teams = blockDim.x / wide, people = 0;
    for (int b = 0; b < n_blocks; b++) {
        i64 begin = (i64)b * width;
        int columns = min(width, n_bins - begin);
        __syncthreads();
        for (int j = threadIdx.x; j <= columns; j += blockDim.x) shared[j] = 0;
        __syncthreads();
        for (i64 place = job[1] + threadIdx.x / wide; place < job[2]; place += teams) {
            int entry = list[place], sign = entry & 1 ? -1 : 1;
            const i64* start = starts + b * n_people + (entry >> 1);
            for (i64 g = start[0] + lane; g < start[1]; g += wide) {
                uint4 q = __ldcs(groups + g);
                u32 words[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    atomicAdd(shared + (words[k] & 0xffff), sign);
                    atomicAdd(shared + (words[k] >> 16), sign);
                }
            }
            if (b == 0 && lane == 0) people += sign;
        }
        __syncthreads();
        for (int j = threadIdx.x; j < columns; j += blockDim.x)
            if (shared[j]) atomicAdd(slot + begin + j, shared[j]);
    }
    if (people) atomicAdd(slot + n_bins, people);
}

// As `count`, of everybody and one model, each with an amount of any size; above 0 to plus, below to minus.
__global__ void count_amounts(const uint4* groups, const i64* starts, i64 n_people, i64 n_bins, i64 width, i64 n_blocks,
                              const i64* amounts, u64* plus, u64* minus) {
    int lane = threadIdx.x & 31;
    i64 warp = (blockIdx.x * (i64)blockDim.x + threadIdx.x) >> 5, warps = gridDim.x * (i64)(blockDim.x >> 5);
    for (i64 i = warp; i < n_people; i += warps) {
        if (amounts[i] == 0) continue;
        u64* side = amounts[i] > 0 ? plus : minus;
        u64 amount = amounts[i] > 0 ? amounts[i] : -amounts[i];
        for (int b = 0; b < n_blocks; b++) {
            i64 begin = (i64)b * width;
            u32 columns = min(width, n_bins - begin);
            for (i64 g = starts[b * n_people + i] + lane; g < starts[b * n_people + i + 1]; g += 32) {
                uint4 q = groups[g];
                u32 words[4] = {q.x, q.y, q.z, q.w};
                for (int k = 0; k < 4; k++) {
                    if ((words[k] & 0xffff) < columns) atomicAdd(side + begin + (words[k] & 0xffff), amount);
                    if (words[k] >> 16 < columns) atomicAdd(side + begin + (words[k] >> 16), amount);
                }
            }
        }
        if (lane == 0) atomicAdd(side + n_bins, amount);
    }
}

// The kept units of everybody's update under one model: unit u of a person is kept if its 53-bit dice word is below
// `keep`. Rows as they are: units are numbered through a person's bins in ascending order, the bias unit last.
__global__ void count_kept(const i64* indptr, const int* bins, const i64* units, i64 n_people, i64 n_bins,
                           const signed char* signs, const u64* keys, const i64* keep53, u64 counter, u64* plus,
                           u64* minus, i64* sent) {
    int lane = threadIdx.x & 31;
    i64 warp = (blockIdx.x * (i64)blockDim.x + threadIdx.x) >> 5, warps = gridDim.x * (i64)(blockDim.x >> 5);
    for (i64 i = warp; i < n_people; i += warps) {
        if (signs[i] == 0) continue;
        u64* side = signs[i] > 0 ? plus : minus;
        u64 k0 = keys[2 * i], k1 = keys[2 * i + 1], keep = keep53[i] > 0 ? keep53[i] : 0;
        i64 first = indptr[i], last = indptr[i + 1], before = units[first];
        int kept = 0;
        for (i64 j = first + lane; j <= last; j += 32) {
            int here = 0;
            i64 end = j < last ? units[j + 1] : units[last] + 1;
            for (i64 u = units[j]; u < end; u++) here += hash_word(k0, k1, counter + (u64)(u - before)) >> 11 < keep;
            if (here) atomicAdd(side + (j < last ? (i64)bins[j] : n_bins), (u64)here);
            kept += here;
        }
        for (int far = 16; far; far /= 2) kept += __shfl_xor_sync(~0u, kept, far);
        if (lane == 0) sent[i] += kept;
    }
}

// ── weights and states: models x (bins + 1), a row of blocks for each model ─────────────────────────────────────────

__global__ void absolute_most(const i64* values, i64 n, u64* most) {
    const i64* row = values + blockIdx.y * n;
    u64 found = 0;
    for (i64 j = blockIdx.x * (i64)blockDim.x + threadIdx.x; j < n; j += gridDim.x * (i64)blockDim.x)
        found = max(found, (u64)(row[j] < 0 ? -row[j] : row[j]));
    for (int far = 16; far; far /= 2) found = max(found, __shfl_xor_sync(~0u, found, far));
    if ((threadIdx.x & 31) == 0 && found) atomicMax(most + blockIdx.y, found);
}

__global__ void mantissas(const i64* values, i64 n, const int* bits, int* out) {
    i64 j = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (j < n) out[blockIdx.y * n + j] = (int)shifted_half_even(values[blockIdx.y * n + j], bits[blockIdx.y]);
}

// The sums of the next round: older + round_half_even(2^32 (up plus - down minus) p / q); factors are up, down, p, q.
// Counts have two rows for each model, of plus and of minus.
__global__ void step(const int* counts, i64 n, const i64* factors, const i64* older, i64* newer) {
    i64 j = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (j >= n) return;
    const i64* f = factors + 4 * blockIdx.y;
    i64 plus = counts[2 * blockIdx.y * n + j], minus = counts[(2 * blockIdx.y + 1) * n + j];
    i64 at = blockIdx.y * n + j;
    newer[at] = older[at] + divided_half_even((f[0] * plus - f[1] * minus) * f[2], f[3], 32);
}

__global__ void add_divided(const i64* values, i64 n, i64 divisor, i64 bits, i64* total) {
    i64 j = blockIdx.x * (i64)blockDim.x + threadIdx.x, at = blockIdx.y * n + j;
    if (j < n) total[at] += divided_half_even(values[at], divisor, bits);
}

// ── who is in doubt ─────────────────────────────────────────────────────────────────────────────────────────────────

// Sums over every `stride`-th bin: per model the products of four references with each other, and with the target. One
// block for each model, and one order of additions: near-singular equations feel the last bit.
__global__ void products(const int* target, const int* references, i64 n_models, i64 n, i64 stride, double* out) {
    __shared__ double partial[32][20];
    double sums[20] = {0};
    i64 row = blockIdx.x * n;
    for (i64 j = threadIdx.x * stride; j < n; j += blockDim.x * stride) {
        double r[5];
        for (int k = 0; k < 4; k++) r[k] = references[k * n_models * n + row + j];
        r[4] = target[row + j];
        for (int k = 0; k < 4; k++)
            for (int l = 0; l < 5; l++) sums[5 * k + l] += r[k] * r[l];
    }
    for (int k = 0; k < 20; k++) {
        for (int far = 16; far; far /= 2) sums[k] += __shfl_xor_sync(~0u, sums[k], far);
        if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5][k] = sums[k];
    }
    __syncthreads();
    if (threadIdx.x >= 20) return;
    double sum = 0;
    for (int warp = 0; warp < blockDim.x / 32; warp++) sum += partial[warp][threadIdx.x];
    out[20 * blockIdx.x + threadIdx.x] = sum;
}

// Squares of target - sum of coefficient * reference, models x 8 classes; the bias is left to the last class.
__global__ void remainders(const int* target, const int* references, i64 n_models, i64 n, const double* coefficients,
                           const u8* classes, double* squares) {
    double sums[8] = {0};
    const double* c = coefficients + 4 * blockIdx.y;
    for (i64 j = blockIdx.x * (i64)blockDim.x + threadIdx.x; j < n; j += gridDim.x * (i64)blockDim.x) {
        i64 at = blockIdx.y * n + j;
        double rest = target[at];
        for (int k = 0; k < 4; k++) rest -= c[k] * references[k * n_models * n + at];
        int which = classes[j];
        for (int k = 0; k < 8; k++) sums[k] += which == k ? rest * rest : 0.0;
    }
    for (int k = 0; k < 8; k++) {
        for (int far = 16; far; far /= 2) sums[k] += __shfl_xor_sync(~0u, sums[k], far);
        if ((threadIdx.x & 31) == 0) atomicAdd(squares + 8 * blockIdx.y + k, sums[k]);
    }
}

// Verdicts of the people who have one role (a bit) from the scores under references; who is in doubt goes on the model's list.
// `limits`: per model the threshold, what floats lose of a score, and of each unit.
__global__ void guess(const i64* known, i64 n_models, i64 n_people, const double* coefficients, const float* norms,
                      const double* squares, const double* limits, const int* units, const signed char* signs,
                      const u8* roles, i64 role, u8* below, int* lists, i64* lengths) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    i64 at = blockIdx.y * n_people + i;
    bool open = false;
    if (i < n_people) {
        bool verdict = false;
        if (roles[at] & role) {
            const double* c = coefficients + 4 * blockIdx.y;
            double score = 0, bound = 0;
            for (int k = 0; k < 4; k++) score += c[k] * (double)known[k * n_models * n_people + at];
            for (int k = 0; k < 8; k++) bound += norms[k * n_people + i] * sqrt(squares[8 * blockIdx.y + k]);
            const double* limit = limits + 3 * blockIdx.y;
            // Norms are rounded up by far more than a sum of so many floats can lose.
            bound = bound * (1 + 0x1p-24) + limit[1] + units[i] * limit[2];
            double apart = (signs ? signs[i] : 1) * score - limit[0];
            verdict = apart < 0;
            open = fabs(apart) <= bound;
        }
        below[at] = verdict;
    }
    u32 all = __ballot_sync(~0u, open);
    if (!all) return;
    int lane = threadIdx.x & 31;
    i64 begin = 0;
    if (lane == 0) begin = atomicAdd((u64*)lengths + blockIdx.y, (u64)__popc(all));
    begin = __shfl_sync(~0u, begin, 0);
    if (open) lists[blockIdx.y * n_people + begin + __popc(all & ((1u << lane) - 1))] = (int)i;
}

// Verdicts of those who were scored: the people of a list, or with a length below 0 everybody of the role.
__global__ void settle(const i64* scores, const i64* out_at, i64 n_people, const i64* lowers, const signed char* signs,
                       const u8* roles, i64 role, const int* lists, const i64* lengths, u8* below) {
    i64 place = blockIdx.x * (i64)blockDim.x + threadIdx.x, length = lengths[blockIdx.y];
    if (place >= (length < 0 ? n_people : length)) return;
    i64 person = length < 0 ? place : lists[blockIdx.y * n_people + place];
    i64 at = blockIdx.y * n_people + person, score = scores[out_at[blockIdx.y] + place];
    if (roles[at] & role) below[at] = (signs && signs[person] < 0 ? -score : score) < lowers[blockIdx.y];
}

// ── verdicts ────────────────────────────────────────────────────────────────────────────────────────────────────────

// Per model: whose verdict differs from two earlier rounds', and who violates, of each label.
__global__ void compare(const u8* now, const u8* same, const u8* other, const u8* labels, i64 n_people, u64* found) {
    int sums[4] = {0};
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n_people; i += gridDim.x * (i64)blockDim.x) {
        i64 at = blockIdx.y * n_people + i;
        sums[0] += now[at] != same[at], sums[1] += now[at] != other[at];
        sums[2] += now[at] && !labels[i], sums[3] += now[at] && labels[i];
    }
    for (int k = 0; k < 4; k++) {
        for (int far = 16; far; far /= 2) sums[k] += __shfl_xor_sync(~0u, sums[k], far);
        if ((threadIdx.x & 31) == 0 && sums[k]) atomicAdd(found + 4 * blockIdx.y + k, (u64)sums[k]);
    }
}

// Lists of those whose verdict differs from that of the round that counts start from (0: the same parity's, 1: the
// other's, 2: nobody violated), two for each model: people of label 1, then of label 0.
__global__ void changes(const u8* now, const u8* same, const u8* other, const int* starts_from, const u8* labels,
                        i64 n_people, int* lists, i64* lengths) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x, at = blockIdx.y * n_people + i;
    int start = starts_from[blockIdx.y], lane = threadIdx.x & 31;
    bool is = i < n_people && now[at];
    bool was = i < n_people && (start == 0 ? same[at] : start == 1 ? other[at] : 0);
    for (int side = 0; side < 2; side++) {
        bool here = is != was && labels[i] == 1 - side;
        u32 all = __ballot_sync(~0u, here);
        if (!all) continue;
        i64 list = 2 * blockIdx.y + side, begin = 0;
        if (lane == 0) begin = atomicAdd((u64*)lengths + list, (u64)__popc(all));
        begin = __shfl_sync(~0u, begin, 0);
        if (here) lists[list * n_people + begin + __popc(all & ((1u << lane) - 1))] = (int)(2 * i + was);
    }
}

// Per model the confusion of its test people: true label x predicted label.
__global__ void confusion(const u8* negative, const u8* roles, i64 role, const u8* labels, i64 n_people, u64* cells) {
    int sums[4] = {0};
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n_people; i += gridDim.x * (i64)blockDim.x) {
        i64 at = blockIdx.y * n_people + i;
        int cell = 2 * labels[i] + !negative[at];
        for (int k = 0; k < 4; k++) sums[k] += (roles[at] & role) && cell == k;
    }
    for (int k = 0; k < 4; k++) {
        for (int far = 16; far; far /= 2) sums[k] += __shfl_xor_sync(~0u, sums[k], far);
        if ((threadIdx.x & 31) == 0 && sums[k]) atomicAdd(cells + 4 * blockIdx.y + k, (u64)sums[k]);
    }
}

// ── made-up people at Twitter's shape: the words of `twitter_words.draw_words`, in the order in which they come up ──

// A warp for each person, with a table of its own of 2^table_bits entries; `stuck` is set where dice run out.
__global__ void draw_words(const u64* edges, const i64* leans, const u64* keys, i64 first_person, const u8* sides,
                           const int* strengths, const i64* indptr, i64 n_people, i64 table_bits, u64* tables,
                           int* words, int* stuck) {
    int lane = threadIdx.x & 31;
    i64 warp = (blockIdx.x * (i64)blockDim.x + threadIdx.x) >> 5, warps = gridDim.x * (i64)(blockDim.x >> 5);
    u64* table = tables + (warp << table_bits);
    u64 mask = (1ull << table_bits) - 1;
    for (i64 i = warp; i < n_people; i += warps) {
        i64 at = indptr[i], end = indptr[i + 1];
        u64 stamp = (u64)(i + 1) << 32, thrown = (u64)(first_person + i) << 24, last = thrown + (1ull << 24);
        for (; at < end; thrown += 32) {
            if (thrown >= last) {
                if (lane == 0) *stuck = 1;
                break;
            }
            u64 die = hash_word(keys[0], keys[1], thrown + lane);
            u64 edge = edges[die >> 52], span = edges[(die >> 52) + 1] - edge;
            u64 pair = (edge + ((((die >> 21) & 0x7fffffff) * span) >> 31)) >> 10;
            i64 lean = leans[hash_word(keys[2], keys[3], pair) >> 52];
            bool heads = (i64)(die & 0x1fffff) < (1 << 20) + ((lean * strengths[i]) >> 16);
            u32 word = (u32)(pair << 1) | (heads != (sides[i] != 0));
            u64 entry = stamp | word, slot = (word * 0x9e3779b97f4a7c15ull) >> (64 - table_bits), there;
            bool fresh = (__match_any_sync(~0u, word) & ((1u << lane) - 1)) == 0;
            // Past the first cache, which does not see what other lanes have put there.
            while ((there = __ldcg(table + slot)) >> 32 == stamp >> 32 && there != entry) slot = (slot + 1) & mask;
            fresh = fresh && there != entry;
            __syncwarp();
            u32 all = __ballot_sync(~0u, fresh);
            i64 place = at + __popc(all & ((1u << lane) - 1));
            if (fresh && place < end) {
                words[place] = (int)word;
                // Others may take the free entry first.
                while (atomicCAS(table + slot, there, entry) != there) {
                    slot = (slot + 1) & mask;
                    while ((there = __ldcg(table + slot)) >> 32 == stamp >> 32) slot = (slot + 1) & mask;
                }
            }
            at += __popc(all);
            __syncwarp();
        }
    }
}

// The bins of numbers, hashed as their decimal strings under one of `stride` keys.
__global__ void hash_numbers(const int* numbers, i64 n, u64 k0, u64 k1, u64 n_bins, i64 place, i64 stride, int* bins) {
    for (i64 j = blockIdx.x * (i64)blockDim.x + threadIdx.x; j < n; j += gridDim.x * (i64)blockDim.x) {
        u32 left = numbers[j];
        // The last digit is the highest byte of ten.
        u64 low = 0, high = 0;
        int digits = 0;
        do {
            high = (high << 8) | (low >> 56), low = (low << 8) | ('0' + left % 10);
            left /= 10, digits++;
        } while (left);
        Sip sip(k0, k1);
        if (digits >= 8) sip.absorb(low), low = high;
        sip.absorb(low | (u64)digits << 56);
        bins[j * stride + place] = (int)(((sip.finish() >> 32) * n_bins) >> 32);
    }
}

}
