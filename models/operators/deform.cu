// SPDX-License-Identifier: Apache-2.0
// Of a map [height, width, heads, channels], the value between pixels; zero outside.
struct Level {
  const types::value* pixels;  // of this head and channel
  long long height, width, step;

  __device__ float at(long long row, long long column) const {
    const bool inside = row >= 0 && row < height && column >= 0 && column < width;
    return inside ? widen(pixels[(row * width + column) * step]) : 0.0f;
  }
  __device__ float between(float row, float column) const {
    const float top = floorf(row), left = floorf(column), y = row - top, x = column - left;
    const long long r = static_cast<long long>(top), c = static_cast<long long>(left);
    return (1 - y) * ((1 - x) * at(r, c) + x * at(r, c + 1)) + y * ((1 - x) * at(r + 1, c) + x * at(r + 1, c + 1));
  }
};

// A thread for each element of the result; neighbours read neighbouring channels of the same pixels. What the model
// computes of the element is computed as it is stored.
__device__ void ms_deform_attn(const types::value* value, const long long* shapes, const long long* starts,
                               const types::locations* locations, const types::weights* weights, const epilogues::y& y,
                               long long count, long long keys, long long queries, long long heads, long long channels,
                               long long levels, long long points) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i >= count) return;
  const long long head = i / channels % heads, query = i / (channels * heads), image = query / queries;
  const types::value* pixels = value + image * keys * heads * channels + head * channels + i % channels;
  const long long first = (query * heads + head) * levels * points;
  float sum = 0;
  for (long long level = 0; level < levels; ++level) {
    const Level map = {pixels + starts[level] * heads * channels, shapes[2 * level], shapes[2 * level + 1], heads * channels};
    for (long long point = 0; point < points; ++point) {
      const long long sample = first + level * points + point;
      const float column = widen(locations[2 * sample]) * map.width - 0.5f;
      const float row = widen(locations[2 * sample + 1]) * map.height - 0.5f;
      sum += widen(weights[sample]) * map.between(row, column);
    }
  }
  y.store(i, sum);
}
