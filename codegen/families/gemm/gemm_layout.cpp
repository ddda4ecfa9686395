// Matrix products: a block (or the blocks of a cluster) multiplies a tile, its sums wait in shared
// memory, and the program's body runs over them like over rows of memory.
#include "codegen/families/gemm/gemm_layout.h"

#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/emit/early_fetch.h"
#include "codegen/emit/kernel_text.h"
#include "codegen/families/gemm/mixed_input/mixed_input_schedule.h"
#include "codegen/families/gemm/small_m/small_m_schedule.h"
#include "codegen/families/gemm/weights/weight_pack.h"

namespace sinter::codegen {

using ir::Dim;
using plan::fb::InstrKind;

namespace {

constexpr std::uint32_t kScratchAlignment = 16;
constexpr int kBoxColumns = 64;  // of a copy by the copy engine

class ProductLayout {
 public:
  ProductLayout(const ProgramAnalysis& analysis, const ProductSchedule& schedule, Arguments& args)
      : analysis_(analysis), s_(schedule), args_(args), product_(*analysis.request().product) {}

  Layout make() {
    layout_.schedule = &s_.body;
    layout_.thread_dims = analysis_.outer_dims();
    layout_.loop_dims = analysis_.inner_dims();
    layout_.indices.resize(analysis_.rank());
    const auto& ranges = analysis_.exprs().ranges();
    tiles_m_ = ir::ceil_div(product_.m, s_.m, ranges);
    tiles_n_ = ir::ceil_div(part_columns(), part_tile() * s_.across, ranges);
    Dim tiles = tiles_m_ * tiles_n_;
    for (const Dim& batch : product_.batch) tiles = tiles * batch;
    declare_tile();
    if (s_.turns > 0) {
      layout_.blocks = ir::min(tiles, s_.blocks, ranges);
      take_turns(tiles);
      rows_of_passes();
    } else {
      layout_.blocks = tiles * Dim(s_.cluster());
      place_block();
      multiply();
      rows();
      columns();
      reductions();
    }
    layout_.block = {static_cast<std::uint32_t>(s_.threads()), 1, 1};
    return std::move(layout_);
  }

 private:
  void line(std::string text) { layout_.prologue.push_back(std::move(text)); }
  std::string size(const Dim& dim) { return fmt::format("i32({})", args_.dim(dim)); }
  /// Columns of one of the product's parts, and what a tile has of it.
  Dim part_columns() const { return *ir::divide_exactly(product_.n, Dim(product_.parts)); }
  int part_tile() const { return s_.n / product_.parts; }
  bool divides(const Dim& dim, int by) const { return dim.is_constant() && dim.value() % by == 0; }

  void declare_tile() {
    line(s_.turns > 0 ? fmt::format("typedef {} Tile;", tile_type())
                      : fmt::format("typedef WithSums<{}> Tile;", tile_type()));
    line(fmt::format("static_assert(Tile::kSharedBytes == {}, \"what the launch reserves\");",
                     s_.shared_bytes(product_)));
    line("SINTER_DYNAMIC_SHARED(shared);");
  }

  /// Which tile the block has.
  void place_block() {
    const int cluster = s_.cluster();
    line(cluster > 1 ? fmt::format("const u32 rank = blockIdx.x % {};", cluster)
                     : "const u32 rank = 0;");
    if (cluster > 1) line(fmt::format("const u32 tile = blockIdx.x / {};", cluster));
    for (std::string& text : place(cluster > 1 ? "tile" : "blockIdx.x")) line(std::move(text));
  }

  /// Where tile number `rest` is.
  std::vector<std::string> place(std::string rest) {
    std::vector<std::string> lines;
    const auto line = [&](std::string text) { lines.push_back(std::move(text)); };
    // Neighbouring blocks read the same rows, or where weights are what counts, the same weights.
    const Dim& inner_tiles = s_.skinny ? tiles_m_ : tiles_n_;
    const Dim& outer_tiles = s_.skinny ? tiles_n_ : tiles_m_;
    const char* const inner_name = s_.skinny ? "tile_m" : "tile_n";
    const char* const outer_name = s_.skinny ? "tile_n" : "tile_m";
    std::string inner = "0";
    if (inner_tiles != Dim(1)) {
      const std::string count = fmt::format("u32({})", args_.dim(inner_tiles));
      line(fmt::format("const u32 {} = {} % {};", inner_name, rest, count));
      line(fmt::format("const u32 above = {} / {};", rest, count));
      inner = inner_name;
      rest = "above";
    }
    std::string outer = rest;
    if (!product_.batch.empty()) {
      const std::string count = fmt::format("u32({})", args_.dim(outer_tiles));
      line(fmt::format("const u32 {} = {} % {};", outer_name, rest, count));
      line(fmt::format("const u32 matrix = {} / {};", rest, count));
      outer = outer_name;
      rest = "matrix";
    }
    const std::string &tile_m = s_.skinny ? inner : outer, &tile_n = s_.skinny ? outer : inner;
    for (std::size_t b = product_.batch.size(); b-- > 0;) {
      if (b == 0) {
        line(fmt::format("const u32 b0 = {};", rest));
        continue;
      }
      const std::string count = fmt::format("u32({})", args_.dim(product_.batch[b]));
      line(fmt::format("const u32 b{} = {} % {};", b, rest, count));
      line(fmt::format("const u32 left{} = {} / {};", b, rest, count));
      rest = fmt::format("left{}", b);
    }
    line(fmt::format("const i32 first_row = i32({}) * {};", tile_m, s_.m));
    line(s_.across > 1
             ? fmt::format("const i32 first_column = i32({} * {} + rank / {}) * {};", tile_n,
                           s_.across, s_.splits, part_tile())
             : fmt::format("const i32 first_column = i32({}) * {};", tile_n, part_tile()));
    return lines;
  }

  std::string tile_type() const {
    if (s_.turns > 0)
      return fmt::format("TurnTile<{}, {}, {}, {}, {}, {}, {}, {}, {}>",
                         storage_name(product_.type), s_.m, s_.n, s_.turns, s_.groups, s_.stages,
                         product_.rows_are_k, product_.batch.size() + 2, s_.spread);
    if (s_.groups > 0 && s_.skinny) return packed_group_type(product_, s_);
    if (s_.groups > 0)
      return fmt::format("GroupTile<{}, {}, {}, {}, {}, {}, {}, {}>", storage_name(product_.type),
                         s_.m, s_.n, s_.groups, s_.stages, s_.splits, product_.rows_are_k,
                         product_.batch.size() + 2);
    if (s_.skinny) return skinny_type(product_, s_);
    return fmt::format("ProductTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}{}>",
                       storage_name(product_.type), s_.m, s_.n, s_.k, s_.warps_m, s_.warps_n,
                       s_.warps_k, s_.stages, s_.splits, product_.rows_are_k, s_.vector_a,
                       s_.vector_b, left_operand());
  }

  /// How the left operand is read, if not by rows: ", WindowRows<2, i32>".
  std::string left_operand() const {
    if (!product_.windows) return "";
    const ProductWindows& windows = *product_.windows;
    return fmt::format(", WindowRows<{}, {}>", windows.in.size(),
                       needs_wide(analysis_, Dim(2) * windows.elements) ? "i64" : "i32");
  }

  std::string sizes(const ir::Shape& shape) {
    std::vector<std::string> all;
    for (const Dim& dim : shape) all.push_back(size(dim));
    return fmt::format("{{{}}}", fmt::join(all, ", "));
  }

  /// Where the windows of the tile's rows are.
  void windows() {
    const ProductWindows& w = *product_.windows;
    line(fmt::format("operands.a = {};", start(product_.a_buffer(), product_.a)));
    line(fmt::format("operands.windows = {{{}, {}, {}, {},", size(w.channels), size(w.pitch),
                     sizes(w.in), sizes(w.out)));
    line(fmt::format("                    {{{}}}, {{{}}}, {{{}}}, {{{}}}}};",
                     fmt::join(w.kernel, ", "), fmt::join(w.strides, ", "),
                     fmt::join(w.dilations, ", "), fmt::join(w.pads, ", ")));
    line(fmt::format("operands.find_windows(first_row, {} - first_row);", size(product_.m)));
  }

  void packed_weights() {
    const ProductWeights& weights = *product_.weights;
    const std::int64_t k = product_.k.value(), depth = packed_depth(k);
    const std::int64_t stride = depth * kPackedColumns * weights.bits / 8;
    line(fmt::format("operands.b = {} + i64(first_column / {}) * {};",
                     args_.buffer(product_.b_buffer()), kPackedColumns, stride));
    line(fmt::format("operands.stride_b = {};", stride));
    if (product_.parts > 1)
      line(fmt::format("operands.part_b = {};", part_columns().value() / kPackedColumns * stride));
    if (!weights.is_quantised()) return;
    const std::int64_t groups = packed_groups(weights.group, k);
    line(fmt::format("operands.scales = {} + i64(first_column) * {};",
                     args_.buffer(product_.scales_buffer()), groups));
    if (weights.zeros)
      line(fmt::format("operands.zeros = {} + i64(first_column) * {};",
                       args_.buffer(product_.zeros_buffer()), groups));
    line(fmt::format("operands.stride_scales = {};", groups * kPackedColumns));
    if (product_.parts > 1)
      line(fmt::format("operands.part_scales = {};", part_columns().value() * groups));
  }

  /// "a + 64 + i64(b0) * 128 + ...".
  std::string start(std::uint32_t buffer, const ProductOperand& operand) {
    std::string text = args_.buffer(buffer);
    if (operand.offset != Dim(0)) text += " + " + args_.dim(operand.offset);
    for (std::size_t b = 0; b < operand.batch_strides.size(); ++b)
      if (operand.batch_strides[b] != Dim(0))
        text += fmt::format(" + i64(b{}) * {}", b, args_.dim(operand.batch_strides[b]));
    return text;
  }
  std::string start(std::uint32_t buffer, const ProductOperand& operand, const std::string& along,
                    bool strided) {
    const std::string text = start(buffer, operand);
    return strided ? fmt::format("{} + i64({}) * {}", text, along, args_.dim(operand.stride))
                   : fmt::format("{} + {}", text, along);
  }

  void multiply() {
    std::string begin = "0", end = size(product_.k);
    if (s_.splits > 1) {
      const auto& ranges = analysis_.exprs().ranges();
      const Dim depth =
          ir::ceil_div(ir::ceil_div(product_.k, s_.k, ranges), s_.splits, ranges) * Dim(s_.k);
      line(fmt::format("const i32 begin = i32(rank % {}) * {};", s_.splits, size(depth)));
      line(fmt::format("const i32 end = minimum(begin + {}, {});", size(depth), end));
      begin = "begin";
      end = "end";
    }
    if (s_.groups > 0 && !s_.skinny) {
      for (std::string& text : mapped_operands(begin, end)) line(std::move(text));
    } else {
      line("Tile::Operands operands;");
      addressed_operands();
      line(fmt::format("operands.begin = {};", begin));
      line(fmt::format("operands.end = {};", end));
    }
    if (s_.early) begin_early();
    if (s_.early && !product_.b_is_weight) line("wait_for_previous_kernel();");
    if (product_.rows) {
      layout_.rows = rows_function(analysis_.request(), analysis_.exprs(), s_.threads());
      for (const auto& [buffer, bytes] : layout_.rows->weights)
        if (s_.early)
          line(fmt::format("fetch_lines<{}>({}, {});", s_.threads(),
                           args_.buffer(product_.rows->first + buffer), bytes));
    }
    line(fmt::format("Tile::begin<{}>(shared, operands);", s_.early && product_.b_is_weight));
    behind_wait();
    if (product_.rows) make_rows();
    layout_.behind_preload.push_back("Tile::multiply(shared, operands);");
    line(fmt::format("const u32 lane = threadIdx.x % {};", s_.lanes()));
    // Remote sums and scratch are read until here.
    if (s_.cluster() > 1) layout_.epilogue.push_back("cluster_barrier();");
  }

  /// What rows share, such as a bias, is on its way to the L2 when the sums are ready.
  void begin_early() {
    line("allow_next_kernel();");
    std::istringstream fetches(early_fetches(analysis_, args_, layout_.blocks, s_.threads()));
    for (std::string text; std::getline(fetches, text);) line(text.substr(2));
  }

  /// The rows, by a function of their own, and zeros behind them.
  void make_rows() {
    const ProductRows& rows = *product_.rows;
    std::vector<std::string> arguments;
    for (std::size_t b = 0; b + 1 < rows.program.buffers.size(); ++b)
      arguments.push_back(args_.buffer(rows.first + b));
    arguments.push_back("rows");
    for (const std::uint32_t size : layout_.rows->sizes)
      arguments.push_back(args_.expression(size));
    arguments.push_back("block");
    const std::string blocks = args_.dim(layout_.rows->blocks);
    line(fmt::format("Tile::make_rows(shared, {}, [&]({}* rows) {{", size(product_.k),
                     storage_name(product_.type)));
    line(fmt::format("  for (u32 block = 0; block < u32({}); ++block) {{", blocks));
    if (layout_.rows->blocks != Dim(1))
      line("    if (block > 0) __syncthreads();  // what rows are reduced through is used again");
    line(fmt::format("    {};", signature_text(layout_.rows->name, arguments)));
    line("  }");
    line("});");
  }

  void behind_wait() {
    if (!s_.early) return;
    for (std::string& text : args_.behind_wait()) line(std::move(text));
  }

  /// Copies, and for who multiplies a loop over tiles.
  void take_turns(const Dim& tiles) {
    line(fmt::format("const u32 tiles = u32({});", args_.dim(tiles)));
    std::vector<std::string> lines = place("tile");
    for (std::string& text : mapped_operands("0", size(product_.k)))
      lines.push_back(std::move(text));
    line("const auto operands_of = [&](u32 tile) {");
    for (const std::string& text : lines) line("  " + text);
    line("  return operands;");
    line("};");
    if (s_.early) begin_early();
    if (s_.early && !product_.b_is_weight) line("wait_for_previous_kernel();");
    line(fmt::format("if (!Tile::multiplies<{}>(shared, tiles, operands_of)) return;",
                     s_.early && product_.b_is_weight));
    behind_wait();
    layout_.turn_header = "for (Tile::Turn turn; turn.tile < tiles; turn.go_on())";
    layout_.turn_lines = place("turn.tile");
    layout_.behind_preload = {"Tile::Sums tile_sums = {};",
                              "Tile::multiply(tile_sums, shared, turn, operands_of(turn.tile));"};
    layout_.pass_header = "for (int pass = 0; pass < Tile::kPasses; ++pass)";
    if (!s_.spread) return;
    layout_.unroll_passes = true;
    layout_.passes = "Tile::kPasses";
    layout_.exchange = "Tile::exchanged";
    if (divides(product_.n, s_.n)) layout_.load_exchanged = "Tile::load_exchanged";
  }

  /// A lane's row of each pass and its vectors; those outside follow others and write nothing.
  void rows_of_passes() {
    auto& lines = layout_.pass_lines;
    if (!s_.spread) lines.push_back("Tile::show(tile_sums, shared, pass);");
    lines.push_back("const i32 local = first_row + Tile::row_of(pass);");
    std::string live = divides(product_.m, s_.m) ? "" : fmt::format("local < {}", size(product_.m));
    if (!live.empty()) lines.push_back(fmt::format("const bool live = {};", live));
    if (!live.empty()) layout_.live_row = "live";
    rows_from("local", lines);
    layout_.leader = "first_column + Tile::column_of(pass, 0) == 0";
    const std::string k = layout_.unrolled() ? "k" : "0";
    if (layout_.unrolled())
      layout_.loop_header = fmt::format("for (int k = 0; k < {}; ++k)", s_.body.unroll);
    auto& columns = layout_.loop_lines;
    columns.push_back(
        fmt::format("const i32 column = first_column + Tile::column_of(pass, {});", k));
    std::string e = fmt::format("u32(column) / {}", s_.body.vector);
    if (!divides(product_.n, s_.n)) {
      if (!live.empty()) live += " && ";
      live += fmt::format("column < {}", size(product_.n));
      columns.push_back(fmt::format("const bool live = {};", live));
      layout_.live_row = "live";
      e = "live ? " + e + " : 0";
    }
    columns.push_back(fmt::format("const u32 e = {};", e));
    split_index(analysis_, args_, layout_.loop_dims, "e", false, layout_, columns);
    for (std::size_t i = 0; i < analysis_.instr_count(); ++i)
      if (is_product(i)) layout_.products.push_back({i, "sums", "tile_sums, shared, pass, " + k});
  }

  /// Among all rows the one that is row `row_of_matrix` of the tile's matrix, split up.
  void rows_from(const std::string& row_of_matrix, std::vector<std::string>& lines) {
    const Dim count = analysis_.size_of_dims(layout_.thread_dims);
    const bool wide = needs_wide(analysis_, count);
    const char* type = wide ? "u64" : "u32";
    std::string row = fmt::format("{}({})", type, row_of_matrix);
    if (product_.row_step != Dim(1))
      row += fmt::format(" * {}({})", type, args_.dim(product_.row_step));
    for (std::size_t b = 0; b < product_.batch.size(); ++b)
      row += fmt::format(" + {0}(b{1}) * {0}({2})", type, b, args_.dim(product_.batch_rows[b]));
    lines.push_back(layout_.live_row.empty()
                        ? fmt::format("const {} row = {};", type, row)
                        : fmt::format("const {} row = {} ? {} : 0;", type, layout_.live_row, row));
    if (layout_.thread_dims != 0)
      split_index(analysis_, args_, layout_.thread_dims, "row", wide, layout_, lines);
  }

  /// What the copy engine is told: both operands as tensors, k or columns innermost.
  std::vector<std::string> mapped_operands(const std::string& begin, const std::string& end) {
    map("map_a", product_.a_buffer(), product_.a, {product_.k, product_.m}, {kBoxColumns, s_.m});
    if (product_.rows_are_k)
      map("map_b", product_.b_buffer(), product_.b, {product_.n, product_.k}, {kBoxColumns, s_.k});
    else
      map("map_b", product_.b_buffer(), product_.b, {product_.k, product_.n}, {kBoxColumns, s_.n});
    std::vector<std::string> lines = {"Tile::Operands operands;", "operands.a = &map_a;",
                                      "operands.b = &map_b;", "operands.row = first_row;",
                                      "operands.column = first_column;"};
    for (std::size_t b = 0; b < product_.batch.size(); ++b) {
      const auto place = [&](const char* name, const ProductOperand& operand) {
        const bool shared = operand.batch_strides[b] == Dim(0);
        lines.push_back(fmt::format("operands.{}[{}] = {};", name, b,
                                    shared ? "0" : fmt::format("i32(b{})", b)));
      };
      place("batch_a", product_.a);
      place("batch_b", product_.b);
    }
    lines.push_back(fmt::format("operands.begin = {};", begin));
    lines.push_back(fmt::format("operands.end = {};", end));
    return lines;
  }

  void map(const char* name, std::uint32_t buffer, const ProductOperand& operand,
           const std::vector<Dim>& extents, const std::vector<int>& box) {
    ExprTable& exprs = analysis_.exprs();
    plan::fb::TensorMapT map;
    map.buffer = analysis_.program().buffers[buffer];
    map.offset = exprs.intern(operand.offset);
    for (const Dim& extent : extents) map.extents.push_back(exprs.intern(extent));
    map.strides.push_back(exprs.intern(operand.stride));
    for (const int size : box) map.box.push_back(static_cast<std::uint32_t>(size));
    for (std::size_t b = 0; b < product_.batch.size(); ++b) {
      // What all of a batch shares has one place in its dimension, and any stride.
      const bool shared = operand.batch_strides[b] == Dim(0);
      map.extents.push_back(exprs.intern(shared ? Dim(1) : product_.batch[b]));
      map.strides.push_back(exprs.intern(shared ? operand.stride : operand.batch_strides[b]));
      map.box.push_back(1);
    }
    layout_.maps.push_back({name, std::move(map)});
  }

  /// Rows that the copy engine moves, beside weights with addresses.
  void mapped_rows() {
    map("map_a", product_.a_buffer(), product_.a, {product_.k, product_.m}, {kBoxColumns, s_.m});
    line("operands.a = &map_a;");
    line("operands.row = first_row;");
  }

  void addressed_operands() {
    if (product_.windows) {
      windows();
    } else if (s_.groups > 0) {
      mapped_rows();
    } else if (!product_.rows) {
      line(fmt::format("operands.a = {};",
                       start(product_.a_buffer(), product_.a, "first_row", true)));
      line(fmt::format("operands.stride_a = {};", args_.dim(product_.a.stride)));
    }
    if (product_.weights) {
      packed_weights();
    } else {
      line(fmt::format("operands.b = {};", start(product_.b_buffer(), product_.b, "first_column",
                                                 !product_.rows_are_k)));
      line(fmt::format("operands.stride_b = {};", args_.dim(product_.b.stride)));
      if (product_.parts > 1)
        line(fmt::format(
            "operands.part_b = {};",
            args_.dim(product_.rows_are_k ? part_columns() : part_columns() * product_.b.stride)));
    }
    if (s_.groups == 0) line(fmt::format("operands.rows = {} - first_row;", size(product_.m)));
    // A constant where all are there, which spares the kernel its checks.
    line(divides(part_columns(), part_tile() * s_.across)
             ? fmt::format("operands.columns = {};", part_tile())
             : fmt::format("operands.columns = {} - first_column;", size(part_columns())));
  }

  void rows() {
    auto& lines = layout_.pass_lines;
    const int at_once = s_.rows_at_once(), passes = s_.passes();
    if (passes > 1)
      layout_.pass_header = fmt::format("for (int pass = 0; pass < {}; ++pass)", passes);
    std::string group = fmt::format("i32(threadIdx.x / {})", s_.lanes());
    std::string base;
    if (s_.splits > 1) base = fmt::format("i32(rank % {})", s_.splits);
    if (passes > 1) base = base.empty() ? "pass" : fmt::format("(pass * {} + {})", s_.splits, base);
    lines.push_back(base.empty()
                        ? fmt::format("const i32 local = {};", group)
                        : fmt::format("const i32 local = {} * {} + {};", base, at_once, group));
    std::string live;
    const auto require = [&](const std::string& condition) {
      live += (live.empty() ? "" : " && ") + condition;
    };
    if (at_once * s_.lanes() != s_.threads()) require(fmt::format("{} < {}", group, at_once));
    if (passes * s_.splits * at_once != s_.m) require(fmt::format("local < {}", s_.m));
    if (!divides(product_.m, s_.m))
      require(fmt::format("first_row + local < {}", size(product_.m)));
    if (live.empty()) {
      lines.push_back("const i32 at = local;");
    } else {
      // Threads without a row follow another one, for shuffles and barriers, and write nothing.
      lines.push_back(fmt::format("const bool live = {};", live));
      lines.push_back("const i32 at = live ? local : 0;");
      layout_.live_row = "live";
    }
    rows_from("first_row + local", lines);
    layout_.leader = "lane == 0 && first_column == 0";
  }

  void columns() {
    const int vector = s_.body.vector, across = part_tile() / vector;
    auto& lines = layout_.loop_lines;
    if (layout_.unrolled())
      layout_.loop_header = fmt::format("for (int k = 0; k < {}; ++k)", s_.body.unroll);
    lines.push_back(layout_.unrolled() ? fmt::format("const u32 slot = lane + k * {};", s_.lanes())
                                       : "const u32 slot = lane;");
    lines.push_back(fmt::format("const u32 e = u32(first_column) / {} + slot;", vector));
    if (s_.lanes() * s_.body.unroll != across) layout_.predicate = fmt::format("slot < {}", across);
    if (!divides(part_columns(), part_tile() * s_.across)) {
      const Dim vectors = count_vectors(analysis_, s_.body, layout_.loop_dims);
      layout_.predicate +=
          fmt::format("{}e < u32({})", layout_.predicate.empty() ? "" : " && ", args_.dim(vectors));
    }
    split_index(analysis_, args_, layout_.loop_dims, "e", false, layout_, lines);
    product_reads();
  }

  bool is_product(std::size_t i) const {
    const auto& instr = analysis_.instr(i);
    return instr.kind == InstrKind::Load &&
           analysis_.access(instr.access).buffer == product_.product;
  }

  /// The loads of the product: of each part its own.
  void product_reads() {
    const auto& exprs = analysis_.exprs();
    for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
      if (!is_product(i)) continue;
      const auto& access = analysis_.access(analysis_.instr(i).access);
      const std::string slot = fmt::format("slot * {}", s_.body.vector);
      if (product_.parts == 1) {
        layout_.products.push_back({i, "sums", fmt::format("shared, at, {}, rank", slot)});
        continue;
      }
      const auto part = exprs.constant(access.offset) / part_columns().value();
      layout_.products.push_back(
          {i, fmt::format("sums{}", part),
           fmt::format("shared, at, {} + {}, rank", part * (s_.n / product_.parts), slot)});
    }
  }

  void reductions() {
    if (analysis_.stages() == 0) return;
    if (s_.across == 1) {
      if (s_.lanes() > 1) layout_.reduce = "reduce_lanes";
      layout_.reduce_sizes = fmt::format(", {}", s_.lanes());
      return;
    }
    layout_.reduce = "reduce_tile_row";
    layout_.reduce_sizes = fmt::format(", {}, {}, {}", s_.lanes(), s_.across, s_.splits);
    layout_.reduce_tail = ", rank";
    layout_.scratch = static_cast<std::size_t>(s_.rows_at_once());
    layout_.scratch_offset =
        static_cast<std::uint32_t>(s_.shared_bytes(product_) + kScratchAlignment - 1) /
        kScratchAlignment * kScratchAlignment;
  }

  const ProgramAnalysis& analysis_;
  const ProductSchedule& s_;
  Arguments& args_;
  const ProductProgram& product_;
  Layout layout_;
  Dim tiles_m_, tiles_n_;
};

}  // namespace

Layout layout_product(const ProgramAnalysis& analysis, const ProductSchedule& schedule,
                      Arguments& args) {
  return ProductLayout(analysis, schedule, args).make();
}

std::uint32_t product_shared_bytes(const ProgramAnalysis& analysis,
                                   const ProductSchedule& schedule) {
  const ProductProgram& product = *analysis.request().product;
  auto bytes = static_cast<std::uint32_t>(schedule.shared_bytes(product));
  if (schedule.across == 1) return bytes;
  bytes = (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  std::uint32_t reductions = 0;
  for (std::size_t i = 0; i < analysis.instr_count(); ++i)
    reductions += analysis.value(i).live && analysis.instr(i).kind == InstrKind::Reduce;
  return bytes +
         reductions * static_cast<std::uint32_t>(schedule.rows_at_once()) * Layout::kScratchValue;
}

}  // namespace sinter::codegen
