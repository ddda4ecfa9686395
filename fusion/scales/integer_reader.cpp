// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/integer_reader.h"

#include <span>
#include <string>

namespace sinter::fusion {

using ir::Attrs, ir::Ints, ir::Tensor;

namespace {

IntegerLine line_in(const Ints& ints) { return {ints[0], ints[1], ints[2]}; }

/// The parameters of kReadIntegers, from attributes and inputs.
IntegerSource<IntegerLine, IntegerLine> source_of(const Attrs& attrs,
                                                  std::span<const Tensor> inputs) {
  IntegerSource<IntegerLine, IntegerLine> source{attrs.get_int("k"),
                                                 attrs.get_int("n"),
                                                 attrs.get_int("group"),
                                                 &inputs[0],
                                                 line_in(attrs.get_ints("values")),
                                                 {},
                                                 {},
                                                 {}};
  std::size_t next = 1;
  IntegerNumbers<IntegerLine>* const parts[] = {&source.scale, &source.zero, &source.shift};
  for (std::size_t i = 0; i < kIntegerParts.size(); ++i) {
    parts[i]->number = attrs.get_float(std::string(kIntegerParts[i]) + "_number");
    const Ints& line = attrs.get_ints(kIntegerParts[i]);
    if (line.empty()) continue;
    parts[i]->tensor = &inputs[next++];
    parts[i]->address = line_in(line);
  }
  source.scale.is_divisor = attrs.get_int("divides") != 0;
  if (attrs.get_int("columns") != 0) source.columns = &inputs[next];
  return source;
}

/// Whether all positions of a line are in the tensor.
bool is_inside(const IntegerLine& line, std::int64_t rows, std::int64_t columns,
               const Tensor& tensor) {
  const double last_k = static_cast<double>(rows - 1) * static_cast<double>(line.along_k),
               last_n = static_cast<double>(columns - 1) * static_cast<double>(line.along_n),
               first = static_cast<double>(line.offset);
  return first + std::min(0.0, last_k) + std::min(0.0, last_n) >= 0 &&
         first + std::max(0.0, last_k) + std::max(0.0, last_n) <
             static_cast<double>(tensor.element_count());
}

bool fits_integers(const Attrs& attrs, std::span<const Tensor> inputs) {
  constexpr std::int64_t kMost = std::int64_t{1} << 26;
  const std::int64_t k = attrs.get_int("k"), n = attrs.get_int("n"), group = attrs.get_int("group");
  std::size_t count = 1 + (attrs.get_int("columns") != 0 ? 1 : 0);
  for (const char* part : kIntegerParts) {
    const Ints& line = attrs.get_ints(part);
    if (!line.empty() && line.size() != 3) return false;
    count += line.empty() ? 0 : 1;
  }
  if (k < 1 || k > kMost || n < 1 || n > kMost || group < 0 || inputs.size() != count ||
      attrs.get_ints("values").size() != 3)
    return false;
  const IntegerSource<IntegerLine, IntegerLine> source = source_of(attrs, inputs);
  const DType type = inputs[0].dtype();
  const bool is_float4 = type == DType::kFloat8E4M3FN && are_float4(inputs[0]);
  if ((type != DType::kInt8 && type != DType::kUInt8 && !is_float4) ||
      k * n > 2 * inputs[0].element_count() || !is_inside(source.address, k, n, inputs[0]))
    return false;
  for (const IntegerNumbers<IntegerLine>* part : {&source.scale, &source.zero, &source.shift})
    if (part->tensor != nullptr &&
        !is_inside(part->address, ir::group_count(k, group), n, *part->tensor))
      return false;
  return source.columns == nullptr || source.columns->element_count() == 1 ||
         source.columns->element_count() == n;
}

}  // namespace

/// Results: facts (whether such weights exist, their bits, the zero points' type or -1), numbers,
/// scales, zero points.
const ir::Transform kReadIntegers = {
    "read_integers", &fits_integers,
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const IntegerSource<IntegerLine, IntegerLine> source = source_of(attrs, inputs);
      const auto made = IntegerReader(source).read();
      const std::int64_t facts[] = {
          made ? 1 : 0, made ? made->bits() : 0,
          made && made->zero_points ? static_cast<std::int64_t>(made->zero_points->dtype()) : -1};
      std::vector<Tensor> results{Tensor::from_ints(DType::kInt64, {3}, facts)};
      if (made) results.insert(results.end(), {made->values, made->scales});
      if (made && made->zero_points) results.push_back(*made->zero_points);
      return results;
    },
    1};

}  // namespace sinter::fusion
