// Tally: what many events come to for every id, without doing anything per match.
//
// An answer is a few slices of the index, and the same slices come again and again. So it is slices that are
// counted, and ids only at the end: `take` hands the totals of slices on to their ids. Slices that begin or end at
// the same place lie inside each other; one pass from the longest to the shortest settles all of them.
//
// Rule: slices must hold until `take`, so nothing may change the index in between. Engine::look does not.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "sorted.hpp"
#include "tables.hpp"

namespace runnel {

struct Total {
    std::int64_t count = 0, amount = 0;
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = std::numeric_limits<std::int64_t>::min();

    void add(const Total& more) {
        count += more.count;
        amount += more.amount;
        first = std::min(first, more.first);
        last = std::max(last, more.last);
    }
};

class Tally {
   public:
    bool empty() const { return pieces_.empty() && ids_.empty(); }

    // An event of this amount and time had this answer.
    void add(const Answer& answer, std::int64_t amount, std::int64_t at) {
        const Total one{1, amount, at, at};
        for (const Slice& s : answer.slices) piece(s).add(one);
        for (Id id : answer.loose) total(id).add(one);
    }

    // Every id that was answered, with its total; and begin anew.
    void take(std::vector<Id>& ids, std::vector<Total>& totals) {
        std::vector<Piece> alone;
        settle(pieces_, [](const Piece& p) { return p.slice.first; }, false, &alone);
        settle(alone, [](const Piece& p) { return p.slice.first + p.slice.count; }, true, nullptr);
        ids = std::move(ids_);
        totals = std::move(totals_);
        *this = Tally();
    }

   private:
    struct Piece {
        Slice slice;
        Total total;
    };

    Total& piece(const Slice& s) {
        // A slice is at most a block: addresses of ids are so far apart that this is a key of its own.
        std::uint32_t& place = place_of_piece_.at(reinterpret_cast<std::uint64_t>(s.first) << 13 | s.count);
        if (!place) {
            pieces_.push_back({s, {}});
            place = static_cast<std::uint32_t>(pieces_.size());
        }
        return pieces_[place - 1].total;
    }

    Total& total(Id id) {
        std::uint32_t& place = place_of_id_.at(static_cast<std::uint64_t>(id));
        if (!place) {
            ids_.push_back(id);
            totals_.emplace_back();
            place = static_cast<std::uint32_t>(totals_.size());
        }
        return totals_[place - 1];
    }

    // Settles pieces that share an edge together; one that shares it with no other goes to `alone`, if there is one.
    template <class Edge>
    void settle(std::vector<Piece>& pieces, Edge edge, bool at_end, std::vector<Piece>* alone) {
        std::sort(pieces.begin(), pieces.end(), [&](const Piece& a, const Piece& b) {
            return edge(a) != edge(b) ? edge(a) < edge(b) : a.slice.count > b.slice.count;
        });
        for (std::size_t i = 0, next; i < pieces.size(); i = next) {
            for (next = i + 1; next < pieces.size() && edge(pieces[next]) == edge(pieces[i]);) ++next;
            if (alone && next == i + 1) {
                alone->push_back(pieces[i]);
                continue;
            }
            Total sum;
            for (std::size_t p = i; p < next; ++p) {
                sum.add(pieces[p].total);
                const std::size_t inner = p + 1 < next ? pieces[p + 1].slice.count : 0;
                for (std::size_t n = inner; n < pieces[p].slice.count; ++n)
                    total(at_end ? edge(pieces[p])[-1 - static_cast<std::ptrdiff_t>(n)] : edge(pieces[p])[n]).add(sum);
            }
        }
    }

    std::vector<Piece> pieces_;
    IntMap<std::uint32_t> place_of_piece_;
    std::vector<Id> ids_;
    std::vector<Total> totals_;
    IntMap<std::uint32_t> place_of_id_;
};

}  // namespace runnel
