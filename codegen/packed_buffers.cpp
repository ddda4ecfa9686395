#include "codegen/packed_buffers.h"

#include <algorithm>

#include <sinter/error.h>

#include "codegen/weight_pack.h"

namespace sinter::codegen {

namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

}  // namespace

PackedBuffers::Packed PackedBuffers::make(const ProductProgram& product, const Key& key) {
  const auto tensor = [&](std::uint32_t buffer) -> const ir::Tensor& {
    const auto constant = buffers_.constant_of(buffer);
    if (!constant)
      throw Error(ErrorCode::kUnsupported,
                  "the quantised weights of a product are computed, not constants");
    return *constant;
  };
  ir::QuantisedWeights weights;
  weights.bits = product.weights->bits;
  weights.group = product.weights->group;
  weights.k = product.k.value();
  weights.values = tensor(key[0]);
  weights.scales = tensor(key[1]);
  if (key[2] != kNone) weights.zero_points = tensor(key[2]);
  const PackedWeights packed = pack_weights(weights, product.type);
  const auto add = [&](const ir::Tensor& part) {
    return buffers_.constant(std::make_shared<const ir::Tensor>(part));
  };
  return {add(packed.values), add(packed.scales), packed.zeros ? add(*packed.zeros) : kNone,
          packed.scales.dtype()};
}

void PackedBuffers::pack(ProductProgram& product) {
  if (!product.weights) return;
  auto& buffers = product.program.buffers;
  const Key key = {buffers[product.b_buffer()], buffers[product.scales_buffer()],
                   product.weights->zeros ? buffers[product.zeros_buffer()] : kNone};
  const auto [at, added] = known_.try_emplace({key, product.type});
  if (added) at->second = make(product, key);
  const Packed& packed = at->second;
  product.weights->scales = packed.type;
  buffers[product.b_buffer()] = packed.values;
  buffers[product.scales_buffer()] = packed.scales;
  if (product.weights->zeros) buffers[product.zeros_buffer()] = packed.zeros;
}

void PackedBuffers::replace(std::vector<std::uint32_t>& reads, std::span<const std::uint32_t> plain,
                            std::span<const std::uint32_t> packed) {
  std::erase_if(reads, [&](std::uint32_t buffer) {
    return std::find(plain.begin(), plain.end(), buffer) != plain.end();
  });
  for (const std::uint32_t buffer : packed)
    if (std::find(reads.begin(), reads.end(), buffer) == reads.end()) reads.push_back(buffer);
}

}  // namespace sinter::codegen
