// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/run/inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <fmt/ranges.h>

#include "frontend/import.h"
#include "ir/reference/relative_error.h"
#include "runtime/format_error.h"
#include "tools/compiler/options/shapes.h"

namespace sinter::tools {

namespace {

/// Splits "NAME=FILE"; the name of FILE.npz is empty.
std::pair<std::string, std::string> split_tensor_file(const std::string& text) {
  if (text.ends_with(".parquet"))
    throw usage_error(
        "'{}': Parquet is read by the Python package and pyarrow: python -m pysinter run PLAN "
        "--inputs FILE.parquet --outputs FILE.parquet",
        text);
  const auto equals = text.find('=');
  if (equals != std::string::npos) return {text.substr(0, equals), text.substr(equals + 1)};
  if (text.ends_with(".npz")) return {"", text};
  throw usage_error("'{}': write FILE.npz, NAME=FILE.npy or NAME=FILE.pb", text);
}

// NumPy lacks bfloat16 and 8-bit floats: files contain their bits (npy.h).
bool is_stored_as(DType stored, DType type) {
  return stored == type || (type == DType::kBFloat16 && stored == DType::kUInt16) ||
         (is_float8(type) && stored == DType::kUInt8);
}

// Period of the random values: generating a gigabyte of distinct ones would take seconds. A prime,
// so that rows of a tensor differ.
constexpr std::int64_t kDistinct = 1'048'573;

template <typename Value, typename Distribution>
std::vector<Value> draw(std::int64_t count, Distribution distribution, std::mt19937_64& generator) {
  std::vector<Value> values(static_cast<std::size_t>(count));
  for (auto& value : values) value = distribution(generator);
  return values;
}

ir::Tensor repeated(const ir::Tensor& values, const std::vector<std::int64_t>& shape,
                    std::int64_t count) {
  const auto source = values.bytes();
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(values.dtype()));
  for (std::size_t at = 0; at < bytes.size(); at += source.size())
    std::copy_n(source.begin(), std::min(source.size(), bytes.size() - at), bytes.begin() + at);
  return ir::Tensor(values.dtype(), shape, ir::Buffer::take(std::move(bytes)));
}

ir::Tensor random_tensor(DType dtype, const std::vector<std::int64_t>& shape,
                         const std::pair<double, double>* bounds, std::mt19937_64& generator) {
  std::int64_t count = 1;
  for (const auto dim : shape)
    if (__builtin_mul_overflow(count, dim, &count))
      throw usage_error("the size of a random input overflows");
  const std::int64_t drawn = std::min(count, kDistinct);
  const double low = bounds != nullptr ? bounds->first : 0,
               high = bounds != nullptr ? bounds->second : 1;
  const auto floats = [&](auto distribution) {
    return ir::Tensor::from_doubles(dtype, {drawn}, draw<double>(drawn, distribution, generator));
  };
  if (is_float(dtype))
    return repeated(bounds != nullptr ? floats(std::uniform_real_distribution<double>(low, high))
                                      : floats(std::normal_distribution<double>()),
                    shape, count);
  const std::uniform_int_distribution<std::int64_t> uniform(static_cast<std::int64_t>(low),
                                                            static_cast<std::int64_t>(high));
  return repeated(
      ir::Tensor::from_ints(dtype, {drawn}, draw<std::int64_t>(drawn, uniform, generator)), shape,
      count);
}

}  // namespace

NamedTensors read_tensor_files(const std::vector<std::string>& files, const ArrayCheck& check,
                               const TextTargets& texts) {
  NamedTensors tensors;
  for (const auto& text : files) {
    const auto [name, path] = split_tensor_file(text);
    if (name.empty() && path == text) {
      for (auto& entry : read_npz(path, check, texts)) tensors.push_back(std::move(entry));
    } else if (path.ends_with(".pb")) {
      tensors.emplace_back(name, frontend::read_tensor_proto(path));
      if (check) check(name, tensors.back().second.dtype(), tensors.back().second.shape());
    } else {
      tensors.emplace_back(name, read_npy(path, name, check, texts));
    }
  }
  return tensors;
}

std::vector<std::string> tensor_paths(const std::vector<std::string>& texts) {
  std::vector<std::string> paths;
  for (const auto& text : texts) paths.push_back(split_tensor_file(text).second);
  return paths;
}

ir::Tensor as_stored(ir::Tensor tensor, DType wanted) {
  if (tensor.dtype() == wanted || !is_stored_as(tensor.dtype(), wanted)) return tensor;
  return ir::Tensor(wanted, tensor.shape(), ir::Buffer::copy_of(tensor.bytes()));
}

void check_array(const BindingInfo& input, DType dtype, const std::vector<std::int64_t>& shape) {
  const auto refuse = [&](const std::string& why) {
    throw usage_error("input '{}' {}", input.name, why);
  };
  std::vector<std::string> dims;
  for (const DimInfo& dim : input.shape) dims.push_back(dim.text);
  // A plan of lower precision accepts the model's floats.
  if (!is_stored_as(dtype, input.dtype) && !(is_float(dtype) && is_float(input.dtype)))
    refuse(fmt::format("has type {}, the array given has {}", to_string(input.dtype),
                       to_string(dtype)));
  if (shape.size() != input.shape.size())
    refuse(
        fmt::format("is [{}], the array given has rank {}", fmt::join(dims, ", "), shape.size()));
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (const DimInfo& dim = input.shape[d]; shape[d] < dim.min || shape[d] > dim.max)
      refuse(
          dim.min == dim.max
              ? fmt::format("has {} for dimension {}, the array given has {}", dim.min, d, shape[d])
              : fmt::format("has {} for dimension {}, from {} to {}; the array given has {}",
                            dim.text, d, dim.min, dim.max, shape[d]));
}

std::vector<ir::Tensor> make_inputs(const std::vector<BindingInfo>& inputs,
                                    const RunInputs& options, const TextTargets& texts) {
  // Arrays that cannot fit are refused before they are read or decompressed.
  NamedTensors given = read_tensor_files(
      options.files,
      [&](const std::string& name, DType dtype, const std::vector<std::int64_t>& shape) {
        const auto input =
            std::ranges::find_if(inputs, [&](const BindingInfo& one) { return one.name == name; });
        std::vector<std::string> all;
        for (const BindingInfo& one : inputs) all.push_back(one.name);
        if (input == inputs.end())
          throw usage_error("there is no input '{}'; the inputs are {}", name,
                            fmt::join(all, ", "));
        check_array(*input, dtype, shape);
      },
      texts);
  for (const NamedTensor& tensor : options.tensors)
    given.emplace_back(tensor.name, tensor_of(tensor.tensor));
  Shapes shapes = options.shapes;
  std::vector<std::pair<std::string, std::vector<std::string>>> names;
  ir::Bindings least;
  for (const auto& input : inputs) {
    names.emplace_back(input.name, std::vector<std::string>());
    for (const auto& dim : input.shape) {
      names.back().second.push_back(dim.text);
      least.emplace(dim.text, dim.min);  // a symbol; other texts are never looked up
    }
  }
  for (const auto& [name, tensor] : given) shapes.insert_or_assign(name, tensor.shape());
  for (const auto& [name, bounds] : options.ranges) {
    bool known = false;
    for (const auto& input : inputs) known = known || input.name == name;
    if (!known) throw usage_error("there is no input '{}'", name);
  }
  const Shapes complete = complete_shapes(names, shapes, 1, least);

  std::vector<ir::Tensor> result;
  std::mt19937_64 generator(options.seed);
  for (const auto& input : inputs) {
    const ir::Tensor* found = nullptr;
    for (const auto& [name, tensor] : given)
      if (name == input.name) found = &tensor;
    if (found != nullptr) {
      result.push_back(as_stored(*found, input.dtype));
      continue;
    }
    const auto range = options.ranges.find(input.name);
    if (input.counts_tokens && range == options.ranges.end()) {
      // All ones: results at padding are undefined and not comparable.
      const std::pair one{1.0, 1.0};
      ir::Tensor mask = random_tensor(DType::kInt64, complete.at(input.name), &one, generator);
      result.push_back(ir::Tensor::from_doubles(input.dtype, mask.shape(), mask.to_doubles()));
      continue;
    }
    result.push_back(random_tensor(input.dtype, complete.at(input.name),
                                   range == options.ranges.end() ? nullptr : &range->second,
                                   generator));
  }
  return result;
}

TensorView view_of(const ir::Tensor& tensor) {
  return {tensor.dtype(), tensor.shape(), tensor.bytes().data(), Memory::kHost};
}

ir::Tensor tensor_of(const TensorView& view) {
  if (view.memory != Memory::kHost)
    throw usage_error("the compiler reads tensors in host memory alone");
  const auto* data = static_cast<const std::byte*>(view.data);
  return ir::Tensor(view.dtype, view.shape, ir::Buffer::copy_of({data, view.byte_count()}));
}

double relative_error(const ir::Tensor& a, const ir::Tensor& b) {
  ir::RelativeError error;
  error.add(a, b);
  return error.value();
}

double largest_difference(const ir::Tensor& a, const ir::Tensor& b) {
  if (a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::int64_t i = 0; i < b.element_count(); ++i) {
    const double x = a.at(i), y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double difference = std::abs(x - y);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

std::string source_of(const RunInputs& inputs) {
  std::vector<std::string> parts = inputs.files;
  if (!inputs.tensors.empty()) parts.emplace_back("given tensors");
  return parts.empty() ? fmt::format("seed {}", inputs.seed)
                       : fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace sinter::tools
