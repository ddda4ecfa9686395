// SPDX-License-Identifier: Apache-2.0
// An Arrow array viewed as a column of tensor elements: checked, not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinter/arrow_abi.h>
#include <sinter/dtype.h>

namespace sinter::arrow {

/// A validity bitmap from bit `first` on; each bit covers `repeat` elements.
struct Validity {
  const std::uint8_t* bits = nullptr;
  std::int64_t first = 0, repeat = 1;

  bool operator()(std::int64_t element) const {
    const std::int64_t bit = first + (repeat == 1 ? element : element / repeat);
    return (bits[bit / 8] >> (bit % 8) & 1) != 0;
  }
};

struct Column {
  std::string name;                 // "column 'age'", for errors
  DType dtype = DType::kFloat32;    // type of the elements, or of a dictionary's codes
  bool is_bits = false;             // elements are bits: kBool
  std::int64_t rows = 0;            // number of rows that are bound
  std::vector<std::int64_t> lists;  // sizes of fixed-size lists, outermost first
  const std::byte* data = nullptr;  // null only if there are no elements
  std::int64_t first = 0;           // index in `data` of the first element bound
  std::vector<Validity> validity;   // empty: nothing is null

  /// Elements per row.
  std::int64_t width() const;
  /// Address of the first element; not for bits.
  const std::byte* begin() const;
  /// Number of null list rows and null elements, in host memory.
  std::int64_t count_nulls() const;
};

/// A range of rows of an array, not counting the array's own offset.
struct Part {
  std::int64_t first = 0, count = 0;
};

/// `rows` rows of the array from `first_row` on; -1: up to the end. Throws Error(kUsage) for a
/// range beyond the end, and for a released or invalid array, which the error calls `what`.
Part part_of(const ArrowArray& array, std::int64_t first_row, std::int64_t rows,
             const std::string& what);

/// Throws Error(kUsage) for inconsistent arrays and types that no tensor has. `on_device`: bitmaps
/// cannot be read, so an array that may have nulls is refused.
Column read_column(const ArrowSchema& schema, const ArrowArray& array, const Part& part,
                   const std::string& what, bool on_device);

/// The columns of a record batch, read on request. Refers to both structures.
class RecordBatch {
 public:
  /// Throws Error(kUsage) unless it is a struct array.
  RecordBatch(const ArrowSchema& schema, const ArrowArray& array, const Part& part, bool on_device);

  std::int64_t rows() const { return part_.count; }
  bool has(const std::string& name) const;
  /// Throws Error(kUsage) listing the known names, or for a name that two columns share.
  Column column(const std::string& name) const;

 private:
  const ArrowSchema& schema_;
  const ArrowArray& array_;
  Part part_;
  bool on_device_;
};

}  // namespace sinter::arrow
