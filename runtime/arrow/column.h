// SPDX-License-Identifier: Apache-2.0
// An Arrow array as a column of tensor elements: checked, nothing copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinter/arrow_abi.h>
#include <sinter/dtype.h>

namespace sinter::arrow {

/// Bits that say of each `repeat` elements, from the one of bit `first` on, whether they are there.
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
  DType dtype = DType::kFloat32;    // of the elements, or of a dictionary's codes
  bool is_bits = false;             // elements are bits: of kBool
  std::int64_t rows = 0;            // in the part that is taken
  std::vector<std::int64_t> lists;  // sizes of fixed-size lists, outermost first
  const std::byte* data = nullptr;  // null only without elements
  std::int64_t first = 0;           // the element that is the part's first
  std::vector<Validity> validity;   // none: nothing is null

  /// Elements of a row.
  std::int64_t width() const;
  /// The first element; not of bits.
  const std::byte* begin() const;
  /// Rows of lists, and elements, that are null. Of host memory.
  std::int64_t count_nulls() const;
};

/// Rows of an array, without its own offset.
struct Part {
  std::int64_t first = 0, count = 0;
};

/// `rows` of the array from `first_row` on, -1: all there are. Throws Error(kUsage) if there are
/// not as many, or for a released or impossible array, which is called `what`.
Part part_of(const ArrowArray& array, std::int64_t first_row, std::int64_t rows,
             const std::string& what);

/// Throws Error(kUsage) for what is inconsistent or of a type that no tensor has. `on_device`:
/// bitmaps cannot be read, and an array that may have nulls is refused.
Column read_column(const ArrowSchema& schema, const ArrowArray& array, const Part& part,
                   const std::string& what, bool on_device);

/// The columns of a record batch, read when they are asked for. Refers to both structures.
class RecordBatch {
 public:
  /// Throws Error(kUsage) for what is no struct array.
  RecordBatch(const ArrowSchema& schema, const ArrowArray& array, const Part& part, bool on_device);

  std::int64_t rows() const { return part_.count; }
  bool has(const std::string& name) const;
  /// Throws Error(kUsage) listing the names there are, or for a name that two columns have.
  Column column(const std::string& name) const;

 private:
  const ArrowSchema& schema_;
  const ArrowArray& array_;
  Part part_;
  bool on_device_;
};

}  // namespace sinter::arrow
