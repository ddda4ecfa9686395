#include <cstring>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/reference/kernels.h"
#include "ir/reference/strided.h"

namespace sinter::ir::reference {

std::vector<Tensor> evaluate_gather(const Attrs& attrs, std::span<const Tensor> inputs,
                                    std::span<const TensorType> outputs) {
  const Tensor &data = inputs[0], &indices = inputs[1];
  const auto axis = static_cast<std::size_t>(attrs.get_int("axis"));
  const std::int64_t extent = data.shape()[axis];
  std::int64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < axis; ++d) outer *= data.shape()[d];
  for (std::size_t d = axis + 1; d < data.shape().size(); ++d) inner *= data.shape()[d];
  std::vector<std::int64_t> rows = indices.to_ints();
  for (std::int64_t& row : rows) {
    if (row < -extent || row >= extent)
      throw Error(ErrorCode::kUsage,
                  fmt::format("index {} is outside dimension {} of {}: expected {} to {}", row,
                              axis, to_string(data.type()), -extent, extent - 1));
    if (row < 0) row += extent;
  }
  const std::size_t run = static_cast<std::size_t>(inner) * size_of(data.dtype());
  std::vector<std::byte> bytes(static_cast<std::size_t>(outer) * rows.size() * run);
  std::byte* out = bytes.data();
  for (std::int64_t o = 0; o < outer && run > 0; ++o) {
    for (const std::int64_t row : rows) {
      std::memcpy(out, data.bytes().data() + static_cast<std::size_t>(o * extent + row) * run, run);
      out += run;
    }
  }
  const Tensor taken(data.dtype(), concrete_shape(outputs[0].shape),
                     Buffer::take(std::move(bytes)));
  return {convert(taken, outputs[0].dtype)};
}

}  // namespace sinter::ir::reference
