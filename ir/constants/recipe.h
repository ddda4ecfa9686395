// How constants are made of a model's own, so that they can be made again of others (refit).
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/attributes.h"
#include "ir/tensor.h"

namespace sinter::ir {

/// Whether a Transform or Derivation can be applied to such attributes and inputs, whose values it
/// does not read; throws for attributes that are not there. The compiler applies them to no others,
/// a file may ask for anything.
using Fits = bool (*)(const Attrs& attrs, std::span<const Tensor> inputs);

/// Attributes and inputs in, constants out: what the compiler does with constants besides
/// evaluating operators of the IR. Reads nothing but its arguments.
struct Transform {
  std::string_view name;  // of no operator
  Fits fits;
  std::vector<Tensor> (*apply)(const Attrs& attrs, std::span<const Tensor> inputs);
  /// Bit i: result i is an answer that something is decided by, and is stored nowhere.
  unsigned answers = 0;
};

/// The same for one large constant that is made whenever somebody reads it.
struct Derivation {
  std::string_view name;
  Fits fits;
  std::pair<DType, Ints> (*type)(const Attrs& attrs, std::span<const Tensor> inputs);
  std::vector<std::byte> (*make)(const Attrs& attrs, std::span<const Tensor> inputs);
};

class ReadLog;

/// An operator, Transform or Derivation that was applied.
struct Call {
  std::string name;
  Attrs attrs;
  std::vector<Tensor> inputs;  // at least one of which has a recipe
};

/// How a buffer's bytes were made: they are a tensor of the model, or an output of a call.
class Recipe {
 public:
  std::shared_ptr<const Call> call;  // null: a tensor of the model
  std::size_t output = 0;            // which of the call's
  std::string source;                // the tensor's name in the model
  TensorType source_type;
  std::weak_ptr<ReadLog> log;
};

/// What somebody has found out of the values of traced constants while a model was compiled. What
/// was made then holds only for constants of which it is true as well.
class ReadLog {
 public:
  struct Read {
    std::shared_ptr<const Recipe> recipe;
    std::shared_ptr<const Buffer> plain;
    std::string reader;  // what the thread was doing (ReadScope)
  };
  struct Equal {
    std::shared_ptr<const Recipe> a, b;
  };

  /// `name` is one of the model's constants.
  void add_source(std::string name);
  void add(Read read);
  void add(Equal equal);
  std::set<std::string> sources() const;
  std::vector<Read> reads() const;
  std::vector<Equal> equals() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> sources_;
  std::vector<Read> reads_;
  std::vector<Equal> equals_;
};

/// Says what the thread is doing while it lives, for notes: "the pass simplify".
class ReadScope {
 public:
  explicit ReadScope(std::string what);
  ~ReadScope();
  ReadScope(const ReadScope&) = delete;
  ReadScope& operator=(const ReadScope&) = delete;

 private:
  std::string saved_;
};

/// Notes that a tensor was read, if it is traced: its type, too, may be an answer.
void note_read(const Tensor& tensor);
/// `tensor` as the one that the model calls `name`, whose readers `log` notes.
Tensor model_tensor(const Tensor& tensor, std::string name, const std::shared_ptr<ReadLog>& log);

/// What applying gives; traced if an input is.
std::vector<Tensor> apply(const Transform& transform, const Attrs& attrs,
                          std::span<const Tensor> inputs);
Tensor derive(const Derivation& derivation, const Attrs& attrs, std::span<const Tensor> inputs);

/// For Fits: there are `count` inputs, each of `rank` dimensions (-1: any).
bool has_inputs(std::span<const Tensor> inputs, std::size_t count, int rank = -1);
/// All attributes `names` are lists of numbers from 0 to 2^26, as many in one as in the others.
bool has_counts(const Attrs& attrs, std::initializer_list<std::string_view> names);

/// True if no element of `tensor` is of a magnitude above `limit`, or no number.
bool is_within(const Tensor& tensor, double limit);
extern const Transform kIsWithin;

/// `made` of the plain `inputs` by what is called `name`: traced if an input is.
std::vector<Tensor> traced(std::string_view name, const Attrs& attrs,
                           std::span<const Tensor> inputs, std::vector<Tensor> made);
std::vector<Tensor> plain(std::span<const Tensor> inputs);
bool is_traced(std::span<const Tensor> inputs);

}  // namespace sinter::ir
