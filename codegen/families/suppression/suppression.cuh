// Which boxes no better one overlaps: a block for each row of boxes, which are in order.
//
// Boxes are taken in tiles. What is left of a tile by those before it is compared pair by pair, one
// warp goes through it in order, and the rest of the row is compared with what was kept.
#pragma once

#include "scalar.cuh"

struct Box {
  float low_x, low_y, high_x, high_y;
};

SINTER_DEVICE float area_of(const Box& box) {
  return (box.high_x - box.low_x) * (box.high_y - box.low_y);
}

/// Whether the intersection of two boxes is more than `most` of their union; boxes without area
/// have none.
SINTER_DEVICE bool overlap(const Box& a, const Box& b, float most) {
  const float width = (a.high_x < b.high_x ? a.high_x : b.high_x) -
                      (a.low_x > b.low_x ? a.low_x : b.low_x);
  const float height = (a.high_y < b.high_y ? a.high_y : b.high_y) -
                       (a.low_y > b.low_y ? a.low_y : b.low_y);
  const float first = area_of(a), second = area_of(b), both = width * height;
  const float all = first + second - both;
  return width > 0 && height > 0 && first > 0 && second > 0 && all > 0 && both / all > most;
}

SINTER_DEVICE Box box_at(const float* boxes, i64 i) {
  const float* box = boxes + 4 * i;
  return {box[0], box[1], box[2], box[3]};
}

/// Block `row` of kTile threads, of rows of `length` boxes.
template <int kTile>
SINTER_DEVICE void suppress_row(const float* boxes, const b8* valid, b8* kept, i64 row, i64 length,
                                float most) {
  constexpr int kWords = kTile / 32;
  __shared__ Box tile[kTile];
  __shared__ u32 overlaps[kTile][kWords];  // for each box, bits of those in front of it
  __shared__ u32 left[kWords];             // bits of candidates, then of what is kept
  const int thread = static_cast<int>(threadIdx.x);
  boxes += row * length * 4;
  valid += row * length;
  kept += row * length;
  for (i64 begin = 0; begin < length; begin += kTile) {
    const i64 mine = begin + thread;
    // Behind the first tile `kept` holds what is left; a thread reads what it has written itself.
    const bool candidate = mine < length && (begin == 0 ? valid[mine] : kept[mine]).bits != 0;
    const Box box = mine < length ? box_at(boxes, mine) : Box{0, 0, 0, 0};
    tile[thread] = box;
    const u32 bits = __ballot_sync(0xffffffffu, candidate);
    if (thread % 32 == 0) left[thread / 32] = bits;
    __syncthreads();
    for (int word = 0; word < kWords; ++word) {
      u32 hits = 0;
      if (candidate)
        for (int bit = 0; bit < 32 && word * 32 + bit < thread; ++bit)
          if ((left[word] >> bit & 1) != 0 && overlap(tile[word * 32 + bit], box, most))
            hits |= 1u << bit;
      overlaps[thread][word] = hits;
    }
    __syncthreads();
    if (thread < 32) {
      // Lane l has word l of what is kept.
      u32 keep = 0;
      const int here = length - begin < kTile ? static_cast<int>(length - begin) : kTile;
      for (int i = 0; i < here; ++i) {
        const bool hit = thread < kWords && (overlaps[i][thread] & keep) != 0;
        const u32 any = __ballot_sync(0xffffffffu, hit);
        if (any == 0 && thread == i / 32 && (left[i / 32] >> (i % 32) & 1) != 0)
          keep |= 1u << (i % 32);
      }
      if (thread < kWords) left[thread] = keep;
    }
    __syncthreads();
    if (mine < length) kept[mine].bits = static_cast<u8>(left[thread / 32] >> (thread % 32) & 1);
    for (i64 later = mine + kTile; later < length; later += kTile) {
      bool stays = (begin == 0 ? valid[later] : kept[later]).bits != 0;
      const Box other = box_at(boxes, later);
      for (int word = 0; stays && word < kWords; ++word)
        for (u32 rest = left[word]; stays && rest != 0; rest &= rest - 1) {
          const int bit = 31 - __clz(static_cast<int>(rest & (~rest + 1)));
          stays = !overlap(tile[word * 32 + bit], other, most);
        }
      kept[later].bits = static_cast<u8>(stays);
    }
    __syncthreads();
  }
}
