// Sorted ids: what lets one range predicate answer with a slice.
//
// Ids ordered by (cut, id), in blocks of at most 1,024 so that an insert or a removal moves at most one
// block however many ids there are. `above` and `below` push whole pieces of the id arrays to the answer:
// the cost of a match is the number of blocks it takes, not the number of ids.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "numbers.hpp"

namespace runnel {

using Id = std::int64_t;

struct Slice {
    const Id* first;
    std::size_t count;
};

struct Answer {
    std::vector<Slice> slices;
    std::vector<Id> loose;
    std::size_t count() const {
        std::size_t n = loose.size();
        for (const Slice& s : slices) n += s.count;
        return n;
    }
};

class Sorted {
   public:
    bool empty() const { return blocks_.empty(); }

    void insert(Cut cut, Id id) {
        if (blocks_.empty()) blocks_.emplace_back();
        std::size_t b = block_of(cut, id);
        Block& block = blocks_[b];
        const std::size_t at = block.position(cut, id);
        block.cuts.insert(block.cuts.begin() + at, cut);
        block.ids.insert(block.ids.begin() + at, id);
        if (block.ids.size() > kBlock) split(b);
    }

    bool erase(Cut cut, Id id) {
        if (blocks_.empty()) return false;
        const std::size_t b = block_of(cut, id);
        Block& block = blocks_[b];
        const std::size_t at = block.position(cut, id);
        if (at == block.ids.size() || block.ids[at] != id || !(block.cuts[at] == cut)) return false;
        block.cuts.erase(block.cuts.begin() + at);
        block.ids.erase(block.ids.begin() + at);
        if (block.ids.empty()) blocks_.erase(blocks_.begin() + b);
        return true;
    }

    void all(std::vector<Slice>& out) const {
        for (const Block& block : blocks_) out.push_back({block.ids.data(), block.ids.size()});
    }

    // Ids whose cut v is above: a prefix.
    void above(Number v, std::vector<Slice>& out) const {
        const std::size_t whole = blocks_below(v);
        for (std::size_t b = 0; b < whole; ++b) out.push_back({blocks_[b].ids.data(), blocks_[b].ids.size()});
        if (whole == blocks_.size()) return;
        if (const std::size_t n = blocks_[whole].count_below(v)) out.push_back({blocks_[whole].ids.data(), n});
    }

    // Ids whose cut v is below: a suffix.
    void below(Number v, std::vector<Slice>& out) const {
        const std::size_t whole = blocks_below(v);
        if (whole == blocks_.size()) return;
        const Block& edge = blocks_[whole];
        const std::size_t n = edge.count_below(v);
        if (n < edge.ids.size()) out.push_back({edge.ids.data() + n, edge.ids.size() - n});
        for (std::size_t b = whole + 1; b < blocks_.size(); ++b)
            out.push_back({blocks_[b].ids.data(), blocks_[b].ids.size()});
    }

   private:
    static constexpr std::size_t kBlock = 1024;

    struct Block {
        std::vector<Cut> cuts;
        std::vector<Id> ids;

        std::size_t position(Cut cut, Id id) const {
            std::size_t low = 0, high = ids.size();
            while (low < high) {
                const std::size_t middle = (low + high) / 2;
                const bool before = cuts[middle] < cut || (cuts[middle] == cut && ids[middle] < id);
                before ? low = middle + 1 : high = middle;
            }
            return low;
        }
        std::size_t count_below(Number v) const {
            std::size_t low = 0, high = ids.size();
            while (low < high) {
                const std::size_t middle = (low + high) / 2;
                runnel::above(v, cuts[middle]) ? low = middle + 1 : high = middle;
            }
            return low;
        }
    };

    // The number of leading blocks that lie wholly below v.
    std::size_t blocks_below(Number v) const {
        if (blocks_.size() == 1) return 0;  // the block itself tells
        std::size_t low = 0, high = blocks_.size();
        while (low < high) {
            const std::size_t middle = (low + high) / 2;
            runnel::above(v, blocks_[middle].cuts.back()) ? low = middle + 1 : high = middle;
        }
        return low;
    }

    std::size_t block_of(Cut cut, Id id) const {
        std::size_t low = 0, high = blocks_.size() - 1;
        while (low < high) {
            const std::size_t middle = (low + high) / 2;
            const Block& block = blocks_[middle];
            const bool before = block.cuts.back() < cut || (block.cuts.back() == cut && block.ids.back() < id);
            before ? low = middle + 1 : high = middle;
        }
        return low;
    }

    void split(std::size_t b) {
        Block right;
        Block& left = blocks_[b];
        const std::size_t half = left.ids.size() / 2;
        right.cuts.assign(left.cuts.begin() + half, left.cuts.end());
        right.ids.assign(left.ids.begin() + half, left.ids.end());
        left.cuts.resize(half);
        left.ids.resize(half);
        blocks_.insert(blocks_.begin() + b + 1, std::move(right));
    }

    std::vector<Block> blocks_;
};

}  // namespace runnel
