// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/decoder_weights.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "frontend/decoders/config/decoder_config.h"
#include "ir/text/shown.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

/// Tables of angles and masks that old checkpoints contain.
constexpr std::string_view kTables[] = {
    "rotary_emb.inv_freq", "attention.bias",           "attention.masked_bias",
    "rope_freqs.weight",   "rope_factors_long.weight", "rope_factors_short.weight",
    ".input_scale"};  // of activations in 4 bits

/// Of scales of blocks of 8-bit floats, behind the name of their tensor.
constexpr const char* kScaleSuffix = "_scale_inv";

/// Rows of `all` in another order, copied when they are read.
ir::Tensor in_order(const ir::Tensor& all, const ir::Ints& order) {
  const auto buffer = ir::Buffer::derived(all.byte_count(), [all, order] {
    const ir::HeldBytes held = all.hold();
    const std::size_t pitch = held.bytes.size() / order.size();
    std::vector<std::byte> rows(held.bytes.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      std::ranges::copy(held.bytes.subspan(static_cast<std::size_t>(order[i]) * pitch, pitch),
                        rows.begin() + static_cast<std::ptrdiff_t>(i * pitch));
    return rows;
  });
  return {all.dtype(), all.shape(), buffer};
}

/// Tensors of one type behind each other, copied when they are read.
ir::Tensor stacked(std::vector<ir::Tensor> parts) {
  ir::Ints shape = parts[0].shape();
  shape.insert(shape.begin(), std::ssize(parts));
  const DType type = parts[0].dtype();
  const std::size_t bytes = parts[0].byte_count() * parts.size();
  return {type, std::move(shape), ir::Buffer::derived(bytes, [bytes, parts = std::move(parts)] {
            std::vector<std::byte> all;
            all.reserve(bytes);
            for (const ir::Tensor& part : parts) {
              const ir::HeldBytes held = part.hold();
              all.insert(all.end(), held.bytes.begin(), held.bytes.end());
            }
            return all;
          })};
}

}  // namespace

DecoderWeights::DecoderWeights(const Architecture& architecture,
                               std::shared_ptr<const TensorFile> file, bool is_gguf,
                               std::shared_ptr<ir::ReadLog> reads)
    : CheckedWeights(architecture.name, std::move(file), is_gguf, std::move(reads)),
      row_(architecture) {
  // A bare model's file has names without the model's own.
  constexpr std::string_view kModel = "model.";
  const std::string table = folder_name(row_, "token_embd.weight");
  if (!is_gguf && !has(table) && table.starts_with(kModel) && has(table.substr(kModel.size())))
    dropped_ = kModel;
}

CheckedWeights::CheckedWeights(std::string_view architecture,
                               std::shared_ptr<const TensorFile> file, bool is_gguf,
                               std::shared_ptr<ir::ReadLog> reads)
    : architecture_(architecture),
      file_(std::move(file)),
      is_gguf_(is_gguf),
      reads_(std::move(reads)) {}

std::string DecoderWeights::name(std::string_view what, std::optional<std::size_t> layer) const {
  if (is_gguf()) return layer ? fmt::format("blk.{}.{}", *layer, what) : std::string(what);
  const std::string own = folder_name(row_, what);
  const std::string all = layer ? fmt::format("{}{}.{}", row_.layer_prefix, *layer, own) : own;
  return all.starts_with(dropped_) ? all.substr(dropped_.size()) : all;
}

void CheckedWeights::take_factor(const std::string& name, StoredTensor& stored) {
  constexpr std::string_view kWeight = ".weight";
  auto* const blocks = std::get_if<ir::ScaledTensor>(&stored.value);
  if (blocks == nullptr || blocks->format.scale != DType::kFloat8E4M3FN || !name.ends_with(kWeight))
    return;
  const std::string own = name.substr(0, name.size() - kWeight.size()) + ".scale";
  if (!has(own)) return;
  const ir::Tensor factor = take_plain(own, {1});
  if (factor.dtype() != DType::kFloat32)
    throw unsupported_error("tensor '{}' is of {}: expected f32. {}", own,
                            to_string(factor.dtype()), kOtherWay);
  blocks->factors = ir::factors_of_rows(factor, blocks->n());
  blocks->format.has_factors = true;
}

StoredTensor CheckedWeights::take(const std::string& name, const ir::Ints& shape) {
  if (!file_->has(name))
    throw unsupported_error("tensor '{}' is missing, which a model of '{}' has. {}", name,
                            architecture_, kOtherWay);
  if (const auto found = file_->shape(name); found != shape)
    throw unsupported_error("tensor '{}' is [{}]; the configuration makes it [{}]. {}", name,
                            fmt::join(found, ", "), fmt::join(shape, ", "), kOtherWay);
  taken_.insert(name);
  StoredTensor stored = file_->read(name);
  if (auto* plain = std::get_if<ir::Tensor>(&stored.value)) {
    if (plain->dtype() == DType::kFloat8E4M3FN && has(name + kScaleSuffix))
      return {shape, take_scaled(name, *plain)};
    if (!is_float(plain->dtype()) || size_of(plain->dtype()) < 2)
      throw unsupported_error("tensor '{}' is of {}: expected f32, f16 or bf16. {}", name,
                              to_string(plain->dtype()), kOtherWay);
    if (reads_) *plain = ir::model_tensor(*plain, name, reads_);
  }
  take_factor(name, stored);
  return stored;
}

ir::Tensor CheckedWeights::take_plain(const std::string& name, const ir::Ints& shape,
                                      const ir::Ints& order) {
  StoredTensor stored = take_rows(name, shape, order);
  if (auto* plain = std::get_if<ir::Tensor>(&stored.value)) return std::move(*plain);
  const auto& blocks = std::get<ir::ScaledTensor>(stored.value);
  return ir::dequantized(blocks, DType::kFloat32).reshaped(shape);
}

StoredTensor CheckedWeights::take_rows(const std::string& name, const ir::Ints& shape,
                                       const ir::Ints& order) {
  StoredTensor stored = take(name, shape);
  if (order.empty()) return stored;
  if (auto* plain = std::get_if<ir::Tensor>(&stored.value)) {
    *plain = in_order(*plain, order);
    return stored;
  }
  auto& blocks = std::get<ir::ScaledTensor>(stored.value);
  if (blocks.format.rows != 1)
    throw unsupported_error("rows of tensor '{}' share scales: '{}'", name,
                            blocks.format.to_string());
  blocks.values = in_order(blocks.values, order);
  blocks.scales = in_order(blocks.scales, order);
  for (auto* part : {&blocks.zero_points, &blocks.factors, &blocks.offsets})
    if (*part) **part = in_order(**part, order);
  return stored;
}

StoredTensor CheckedWeights::take_matrices(const std::string& name, std::int64_t count,
                                           std::int64_t rows, std::int64_t columns) {
  const ir::Ints shape{count, rows, columns};
  if (has_blocks(name)) return take_blocks(name, shape);
  const std::size_t at = name.find("{}");
  if (at == std::string::npos) return take(name, shape);
  std::vector<ir::Tensor> parts, scales;
  std::optional<ir::ScaledTensor> scaled;
  for (std::int64_t i = 0; i < count; ++i) {
    std::string own = name;
    StoredTensor stored = take(own.replace(at, 2, std::to_string(i)), {rows, columns});
    if (auto* const blocks = std::get_if<ir::ScaledTensor>(&stored.value)) {
      parts.push_back(blocks->values);
      scales.push_back(blocks->scales);
      scaled = std::move(*blocks);
    } else {
      parts.push_back(std::get<ir::Tensor>(std::move(stored.value)));
    }
    if (parts.back().dtype() != parts[0].dtype())
      throw unsupported_error("tensor '{}' is of {}, that of the first expert of {}. {}", own,
                              to_string(parts.back().dtype()), to_string(parts[0].dtype()),
                              kOtherWay);
  }
  if (!scaled) return {shape, stacked(std::move(parts))};
  const std::int64_t groups = scales[0].shape()[1];
  scaled->values = stacked(std::move(parts)).reshaped({count * rows, columns});
  scaled->scales = stacked(std::move(scales)).reshaped({count * rows, groups});
  return {shape, std::move(*scaled)};
}

/// 8-bit floats with a scale for each block of 128 x 128. Each row gets the scales of its block.
ir::ScaledTensor CheckedWeights::take_scaled(const std::string& name, const ir::Tensor& codes) {
  constexpr std::int64_t kBlock = 128;
  const std::int64_t rows = codes.shape()[0], groups = (codes.shape()[1] + kBlock - 1) / kBlock;
  const ir::Tensor blocks = take_plain(name + kScaleSuffix, {(rows + kBlock - 1) / kBlock, groups});
  if (blocks.dtype() != DType::kFloat32)
    throw unsupported_error("tensor '{}{}' is of {}: expected f32. {}", name, kScaleSuffix,
                            to_string(blocks.dtype()), kOtherWay);
  const auto pitch = static_cast<std::size_t>(groups) * sizeof(float);
  const auto buffer =
      ir::Buffer::derived(static_cast<std::size_t>(rows) * pitch, [blocks, rows, pitch] {
        const ir::HeldBytes held = blocks.hold();
        std::vector<std::byte> all(static_cast<std::size_t>(rows) * pitch);
        for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
          std::ranges::copy(held.bytes.subspan(row / kBlock * pitch, pitch),
                            all.begin() + static_cast<std::ptrdiff_t>(row * pitch));
        return all;
      });
  ir::ScaledTensor weights;
  weights.format = ir::ScaleFormat::parse("f8e4m3fn * f32 group 128");
  weights.k = codes.shape()[1];
  weights.values = codes;
  weights.scales = ir::Tensor(DType::kFloat32, {rows, groups}, buffer);
  return weights;
}

bool CheckedWeights::has_blocks(const std::string& name) const {
  return has(name + "_blocks") && has(name + "_scales");
}

/// MXFP4: 16 bytes of 32 codes each, and the exponents of their scales.
StoredTensor CheckedWeights::take_blocks(const std::string& name, const ir::Ints& shape) {
  constexpr std::int64_t kBlock = 32;
  const std::int64_t rows = shape[0] * shape[1], columns = shape[2];
  if (columns % kBlock != 0)
    throw unsupported_error("tensor '{}' has blocks of {} numbers, which do not divide {}. {}",
                            name, kBlock, columns, kOtherWay);
  const auto part = [&](const char* suffix, ir::Ints wanted, std::int64_t pitch) {
    const std::string own = name + suffix;
    if (const auto found = file_->shape(own); found != wanted)
      throw unsupported_error("tensor '{}' is [{}]; the configuration makes it [{}]. {}", own,
                              fmt::join(found, ", "), fmt::join(wanted, ", "), kOtherWay);
    taken_.insert(own);
    const StoredTensor stored = file_->read(own);
    const auto* const bytes = std::get_if<ir::Tensor>(&stored.value);
    if (bytes == nullptr || bytes->dtype() != DType::kUInt8)
      throw unsupported_error("tensor '{}' is of {}: expected u8. {}", own, file_->type(own),
                              kOtherWay);
    return bytes->reshaped({rows, pitch});
  };
  const std::int64_t blocks = columns / kBlock;
  ir::ScaledTensor weights;
  weights.format = ir::ScaleFormat::parse("f4e2m1 * e8m0 group 32");
  weights.k = columns;
  weights.values = part("_blocks", {shape[0], shape[1], blocks, kBlock / 2}, columns / 2);
  weights.scales = part("_scales", {shape[0], shape[1], blocks}, blocks);
  return {shape, std::move(weights)};
}

DType CheckedWeights::activation_type() const {
  if (is_gguf_) return DType::kFloat32;
  std::optional<DType> type;
  for (const std::string& name : file_->names()) {
    if (file_->shape(name).size() < 2) continue;
    const std::string_view stored = file_->type(name);
    if (stored == "U8" || stored == "F8_E4M3" || name.ends_with(kScaleSuffix)) continue;  // blocks
    const DType own = stored == "F16"    ? DType::kFloat16
                      : stored == "BF16" ? DType::kBFloat16
                                         : DType::kFloat32;
    if (type && *type != own) return DType::kFloat32;
    type = own;
  }
  return type.value_or(DType::kFloat32);
}

void CheckedWeights::refuse_others(std::span<const std::string> left_out) const {
  std::vector<std::string> others;
  for (const std::string& name : file_->names()) {
    const auto ends = [&](std::string_view table) { return name.ends_with(table); };
    const auto begins = [&](const std::string& prefix) { return name.starts_with(prefix); };
    if (!taken_.contains(name) && std::ranges::none_of(kTables, ends) &&
        std::ranges::none_of(left_out, begins))
      others.push_back(ir::shown(name));
  }
  if (others.empty()) return;
  constexpr std::size_t kShown = 5;
  const std::size_t count = others.size();
  others.resize(std::min(count, kShown));
  throw unsupported_error("{} tensor{} not known of '{}': '{}'{}. {}", count,
                          count == 1 ? " is" : "s are", architecture_, fmt::join(others, "', '"),
                          count > kShown ? ", .." : "", kOtherWay);
}

}  // namespace sinter::frontend
