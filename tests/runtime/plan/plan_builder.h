// SPDX-License-Identifier: Apache-2.0
// Builds small plans by hand, for tests of the file format and of the executors.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>
#include <sinter/sinter.h>

#include "runtime/plan/plan_data.h"

namespace sinter::testing {

namespace fb = plan::fb;
using Id = std::uint32_t;

/// Adds instructions to one loop program; all methods return the index of what they added.
class LoopBuilder {
 public:
  explicit LoopBuilder(std::vector<Id> extents, Id inner_dims);

  Id access(Id buffer, Id offset, std::vector<Id> strides);
  fb::AccessT& access_at(Id access) { return *program.accesses[access]; }
  Id index_node(fb::ExprOp op, Id a, Id b = 0);
  Id load(Id access, DType type = DType::kFloat32);
  Id constant(double value, DType type = DType::kFloat32);
  Id op(ScalarOp op, std::vector<Id> args, DType type = DType::kFloat32);
  Id reduce(Combine combine, Id value, DType type = DType::kFloat32);
  Id scan(Combine combine, Id value, bool exclusive = false, DType type = DType::kFloat32);
  Id index(Id dim, DType type = DType::kInt64);
  Id store(Id access, Id value, DType type = DType::kFloat32);
  /// `op` as in the plan: a Combine, or 255.
  Id scatter(Id access, Id value, std::uint8_t op, DType type = DType::kFloat32);

  fb::LoopProgramT program;

 private:
  Id add(fb::InstrT instr);
};

class PlanBuilder {
 public:
  PlanBuilder();

  // Expressions.
  Id constant(std::int64_t value);
  Id symbol(const std::string& name, std::int64_t min = 1, std::int64_t max = 1 << 20);
  Id expr(fb::ExprOp op, Id a, Id b);
  Id mul(Id a, Id b) { return expr(fb::ExprOp::Mul, a, b); }
  Id product(const std::vector<Id>& dims);

  // Buffers, and operands that are all of one.
  struct Tensor {
    Id buffer;
    std::vector<Id> shape;
  };
  Id input(const std::string& name, DType type, std::vector<Id> shape);
  Id output(const std::string& name, DType type, std::vector<Id> shape);
  Id arena(DType type, std::vector<Id> shape);
  /// A buffer that is an input, `name`, and an output, `name`_next.
  Id state(const std::string& name, DType type, std::vector<Id> shape);
  template <typename T>
  Id weight(DType type, const std::vector<T>& values) {
    return weight_bytes(type, values.data(), values.size() * sizeof(T));
  }
  Id weight_bytes(DType type, const void* data, std::size_t bytes);
  Tensor input_of(const std::string& name, DType type, std::vector<Id> shape) {
    return {input(name, type, shape), shape};
  }
  Tensor output_of(const std::string& name, DType type, std::vector<Id> shape) {
    return {output(name, type, shape), shape};
  }

  // Steps; reads and writes follow from the work.
  void loop(const std::string& name, LoopBuilder builder);
  void matmul(const std::string& name, fb::MatmulStepT work);
  void conv(const std::string& name, fb::ConvStepT work);
  void attention(const std::string& name, fb::AttentionStepT work);
  using Attribute = std::pair<const char*, std::variant<std::int64_t, double>>;
  /// A step of the runtime's operator `name`.
  void call(const std::string& name, std::initializer_list<Tensor> inputs,
            std::initializer_list<Tensor> outputs,
            std::initializer_list<Attribute> attributes = {});
  /// Notes the operator as custom code, too.
  void host(const std::string& name, fb::HostStepT work);
  void copy(const std::string& name, Id source, Id target, Id bytes);

  /// A matrix with the strides of a dense row-major buffer; batch strides as given.
  std::unique_ptr<fb::MatrixT> matrix(Id buffer, Id row_stride, Id col_stride,
                                      std::vector<Id> batch_strides = {}, Id offset = UINT32_MAX);

  /// Sets the lifetimes of arena buffers and returns the parts.
  plan::PlanParts parts();
  std::vector<std::byte> bytes() { return plan::serialize_plan(parts()); }
  Plan build() { return Plan::from_memory(bytes()); }

  fb::PlanT meta;

 private:
  Id buffer(fb::BufferKind kind, DType type, Id bytes);
  void step(const std::string& name, std::vector<Id> reads, std::vector<Id> writes,
            fb::WorkUnion work);

  std::map<std::int64_t, Id> constants_;
  std::deque<std::vector<std::byte>> weights_;
};

}  // namespace sinter::testing
