// SPDX-License-Identifier: Apache-2.0
#include "runtime/arrow/column.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include <fmt/ranges.h>

#include "runtime/format_error.h"

namespace sinter::arrow {
namespace {

/// Maximum nesting of lists: more than any tensor has dimensions.
constexpr int kMaxDepth = 8;
/// Maximum length of an array: products of lengths then fit in 64 bits.
constexpr std::int64_t kMostElements = std::int64_t{1} << 56;
constexpr std::size_t kMostNames = 20;  // names listed in an error

struct Layout {
  enum class Kind { kElements, kBits, kList } kind = Kind::kElements;
  DType dtype = DType::kBool;
  std::int64_t list_size = 0;
};

std::optional<Layout> layout_of(std::string_view format) {
  constexpr std::string_view kLetters = "cCsSiIlLefg";
  constexpr DType kTypes[] = {DType::kInt8,    DType::kUInt8,   DType::kInt16,  DType::kUInt16,
                              DType::kInt32,   DType::kUInt32,  DType::kInt64,  DType::kUInt64,
                              DType::kFloat16, DType::kFloat32, DType::kFloat64};
  if (format == "b") return Layout{Layout::Kind::kBits};
  if (format.size() == 1)
    if (const auto at = kLetters.find(format[0]); at != std::string_view::npos)
      return Layout{Layout::Kind::kElements, kTypes[at]};
  if (!format.starts_with("+w:")) return std::nullopt;
  Layout list{Layout::Kind::kList};
  const auto [end, error] =
      std::from_chars(format.data() + 3, format.data() + format.size(), list.list_size);
  if (error != std::errc() || end != format.data() + format.size() || list.list_size < 0)
    return std::nullopt;
  return list;
}

/// The error for a type that no tensor has, with a hint.
struct Refusal {
  std::string_view prefix, type, hint;
};
constexpr Refusal kRefusals[] = {
    {"u", "text", "encode it as a dictionary, whose codes are given, or embed it (sinter embed)"},
    {"U", "text", "encode it as a dictionary, whose codes are given, or embed it (sinter embed)"},
    {"vu", "text", "encode it as a dictionary, whose codes are given, or embed it (sinter embed)"},
    {"z", "bytes", "decode them into a fixed-size list of numbers"},
    {"Z", "bytes", "decode them into a fixed-size list of numbers"},
    {"vz", "bytes", "decode them into a fixed-size list of numbers"},
    {"w:", "bytes", "decode them into a fixed-size list of numbers"},
    {"t", "a date, time or duration", "cast it to int64 or int32"},
    {"d:", "a decimal", "cast it to float64"},
    {"n", "nothing but nulls", "cast it to the input's type"},
    {"+l", "a list of any length", "cast it to a fixed-size list"},
    {"+L", "a list of any length", "cast it to a fixed-size list"},
    {"+vl", "a list of any length", "cast it to a fixed-size list"},
    {"+vL", "a list of any length", "cast it to a fixed-size list"},
    {"+s", "a structure", "make columns of its fields (pyarrow.Table.flatten)"},
    {"+m", "a map", "make columns of its values"},
    {"+u", "a union", "make columns of its values"},
    {"+r", "run-end encoded", "decode it (pyarrow.compute.run_end_decode)"},
};

[[noreturn]] void refuse_type(const std::string& what, std::string_view format) {
  for (const Refusal& refusal : kRefusals)
    if (format.starts_with(refusal.prefix))
      throw usage_error("{} is {} (Arrow format '{}'), which no tensor holds: {}", what,
                        refusal.type, format, refusal.hint);
  throw usage_error(
      "{} has the Arrow format '{}', which no tensor holds: bool, integers, floats, dictionaries "
      "and fixed-size lists of these are taken",
      what, format);
}

[[noreturn]] void refuse_array(const std::string& what, std::string why) {
  throw usage_error("{} is not a valid Arrow array: {}", what, std::move(why));
}

void check_schema(const ArrowSchema& schema, const std::string& what) {
  if (!schema.release) throw usage_error("the Arrow schema of {} was released", what);
  if (!schema.format) refuse_array(what, "its schema has no format");
  if (schema.n_children < 0 || (schema.n_children > 0 && !schema.children))
    refuse_array(what, fmt::format("its schema has {} children and {} list of them",
                                   schema.n_children, schema.children ? "a" : "no"));
}

/// Checks that apply to arrays of any type; `buffers`: number of buffers of the type.
void check_array(const ArrowArray& array, std::int64_t buffers, const std::string& what) {
  if (!array.release) throw usage_error("the Arrow array of {} was released", what);
  if (array.length < 0 || array.offset < 0 || array.length > kMostElements ||
      array.offset > kMostElements)
    refuse_array(what, fmt::format("length {}, offset {}", array.length, array.offset));
  if (array.null_count < -1 || array.null_count > array.length)
    refuse_array(what, fmt::format("{} nulls in {} elements", array.null_count, array.length));
  if (array.n_buffers != buffers || !array.buffers)
    refuse_array(what, fmt::format("{} buffers{}, and its type has {}", array.n_buffers,
                                   array.buffers ? "" : " without a list", buffers));
  if (!array.buffers[0] && array.null_count > 0)
    refuse_array(what, fmt::format("{} nulls and no bitmap of them", array.null_count));
}

/// The only child of a list, or child `index` of a structure.
const ArrowArray& child_of(const ArrowSchema& schema, const ArrowArray& array, std::int64_t index,
                           std::int64_t least, const std::string& what) {
  if (array.n_children != schema.n_children || !array.children)
    refuse_array(what, fmt::format("{} children, and its schema has {}", array.n_children,
                                   schema.n_children));
  if (!schema.children[index] || !array.children[index])
    refuse_array(what, fmt::format("child {} is missing", index));
  const ArrowArray& child = *array.children[index];
  if (child.length < least)
    refuse_array(what, fmt::format("child {} has {} elements, and {} are needed", index,
                                   child.length, least));
  return child;
}

std::int64_t product(const std::string& what, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || result > kMostElements)
    refuse_array(what, fmt::format("{} times {} elements", a, b));
  return result;
}

void note_nulls(Column& column, const ArrowArray& array, const Part& part, bool on_device) {
  if (!array.buffers[0] || array.null_count == 0) return;
  if (on_device)
    throw usage_error(
        "{} is in device memory and {}, whose bitmap is not read there: fill them (cudf: fillna), "
        "or give the column in host memory",
        column.name,
        array.null_count < 0 ? "may have nulls" : fmt::format("has {} nulls", array.null_count));
  column.validity.push_back(
      {static_cast<const std::uint8_t*>(array.buffers[0]), array.offset + part.first});
}

void read_values(Column& column, const ArrowSchema& schema, const ArrowArray& array, Part part,
                 bool on_device, int depth) {
  const std::string& what = column.name;
  check_schema(schema, what);
  const auto layout = layout_of(schema.format);
  if (!layout) refuse_type(what, schema.format);
  const bool is_list = layout->kind == Layout::Kind::kList;
  check_array(array, is_list ? 1 : 2, what);
  note_nulls(column, array, part, on_device);
  if (is_list) {
    if (depth == kMaxDepth)
      throw usage_error("{} has lists in lists in more than {} levels", what, kMaxDepth);
    const std::int64_t size = layout->list_size;
    if (schema.n_children != 1)
      refuse_array(what, fmt::format("a list with {} children", schema.n_children));
    const std::int64_t first = product(what, array.offset + part.first, size);
    const std::int64_t count = product(what, part.count, size);
    const ArrowArray& child = child_of(schema, array, 0, first + count, what);
    for (Validity& validity : column.validity) validity.repeat *= std::max<std::int64_t>(size, 1);
    column.lists.push_back(size);
    read_values(column, *schema.children[0], child, {first, count}, on_device, depth + 1);
    return;
  }
  if (schema.dictionary) {
    // Dictionary codes without a dictionary: the array is incomplete.
    if (!array.dictionary) refuse_array(what, "its type is a dictionary, and it has none");
    if (!is_integer(layout->dtype))
      refuse_array(what, fmt::format("codes of a dictionary of format '{}'", schema.format));
  }
  column.is_bits = layout->kind == Layout::Kind::kBits;
  column.dtype = layout->dtype;
  column.data = static_cast<const std::byte*>(array.buffers[1]);
  column.first = array.offset + part.first;
  if (!column.data && part.count > 0)
    refuse_array(what, fmt::format("{} elements and no data", part.count));
}

std::int64_t count_zeros(const std::uint8_t* bits, std::int64_t first, std::int64_t count) {
  std::int64_t ones = 0;
  const std::int64_t end = first + count;
  std::int64_t bit = first;
  const auto one = [&] {
    ones += bits[bit / 8] >> (bit % 8) & 1;
    ++bit;
  };
  while (bit < end && bit % 8 != 0) one();
  for (; end - bit >= 64; bit += 64) {
    std::uint64_t word = 0;
    std::memcpy(&word, bits + bit / 8, sizeof word);
    ones += std::popcount(word);
  }
  while (bit < end) one();
  return count - ones;
}

std::string name_of(const ArrowSchema& schema) { return schema.name ? schema.name : ""; }

}  // namespace

std::int64_t Column::width() const {
  std::int64_t width = 1;
  for (const std::int64_t size : lists) width *= size;
  return width;
}

const std::byte* Column::begin() const {
  return data ? data + first * static_cast<std::int64_t>(size_of(dtype)) : nullptr;
}

std::int64_t Column::count_nulls() const {
  std::int64_t nulls = 0;
  for (const Validity& each : validity)
    nulls += count_zeros(each.bits, each.first, rows * width() / each.repeat);
  return nulls;
}

Part part_of(const ArrowArray& array, std::int64_t first_row, std::int64_t rows,
             const std::string& what) {
  if (!array.release) throw usage_error("the Arrow array of {} was released", what);
  if (array.length < 0 || array.length > kMostElements)
    refuse_array(what, fmt::format("length {}", array.length));
  if (rows == -1 && first_row >= 0 && first_row <= array.length) rows = array.length - first_row;
  if (first_row < 0 || rows < 0 || first_row > array.length || rows > array.length - first_row)
    throw usage_error("{} has {} rows; {} are wanted from row {} on", what, array.length, rows,
                      first_row);
  return {first_row, rows};
}

Column read_column(const ArrowSchema& schema, const ArrowArray& array, const Part& part,
                   const std::string& what, bool on_device) {
  Column column;
  column.name = what;
  column.rows = part.count;
  read_values(column, schema, array, part, on_device, 0);
  if (column.width() > 1) product(what, part.count, column.width());
  return column;
}

RecordBatch::RecordBatch(const ArrowSchema& schema, const ArrowArray& array, const Part& part,
                         bool on_device)
    : schema_(schema), array_(array), part_(part), on_device_(on_device) {
  const std::string what = "the record batch";
  check_schema(schema, what);
  if (std::string_view(schema.format) != "+s")
    throw usage_error(
        "the record batch has the Arrow format '{}': a record batch is a struct array, '+s'; "
        "bind_array gives an input a single array",
        schema.format);
  check_array(array, 1, what);
  for (std::int64_t i = 0; i < schema.n_children; ++i)
    child_of(schema, array, i, array.offset + array.length, what);
}

bool RecordBatch::has(const std::string& name) const {
  for (std::int64_t i = 0; i < schema_.n_children; ++i)
    if (name_of(*schema_.children[i]) == name) return true;
  return false;
}

Column RecordBatch::column(const std::string& name) const {
  std::optional<std::int64_t> found;
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < schema_.n_children; ++i) {
    const ArrowSchema& child = *schema_.children[i];
    if (name_of(child) != name) {
      if (names.size() < kMostNames) names.push_back(name_of(child));
      continue;
    }
    if (found) throw usage_error("the record batch has two columns '{}': rename one", name);
    found = i;
  }
  if (!found)
    throw usage_error("the record batch has no column '{}'; it has {}{}", name,
                      fmt::join(names, ", "),
                      static_cast<std::size_t>(schema_.n_children) > names.size() ? ", ..." : "");
  Column column;
  column.name = fmt::format("column '{}'", name);
  column.rows = part_.count;
  const Part part{array_.offset + part_.first, part_.count};
  // A null row is null in all columns.
  note_nulls(column, array_, part_, on_device_);
  read_values(column, *schema_.children[*found], *array_.children[*found], part, on_device_, 0);
  if (column.width() > 1) product(column.name, part.count, column.width());
  return column;
}

}  // namespace sinter::arrow
