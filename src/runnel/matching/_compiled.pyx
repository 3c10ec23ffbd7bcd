# distutils: language = c++
# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled engine: translates filters and events for the C++ core in `native/`.

This file does nothing else. What the index is and why is in `native/engine.hpp`; the same design,
readable in Python, is `runnel.matching.index`. Errors and answers are the same in both.

It is longer than files are here, since an extension type cannot be spread over several: the engine, what it answers
and its tally share the C++ objects that they are made of.
"""

cimport cython
from cpython cimport array
from cpython.bool cimport PyBool_Check
from cpython.dict cimport PyDict_GetItemWithError
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.list cimport PyList_GET_ITEM
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.buffer cimport PyBUF_READ
from cpython.object cimport PyObject
from cpython.exc cimport PyErr_Clear
from cpython.unicode cimport PyUnicode_Check
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.algorithm cimport sort
from libcpp.utility cimport move
from libcpp.vector cimport vector

import array

from runnel.errors import InputError, InvalidValue
from runnel.language.predicates import Op
from runnel.matching.engine import ID_MAX, BatchMatches, check_new_id, unknown_id
from runnel.matching.tally import Totals


cdef extern from "Python.h":
    # Declared here without `except`: the caller looks at the null, and no exception state is saved per event.
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*)


cdef extern from "<string_view>" namespace "std" nogil:
    cdef cppclass string_view:
        string_view()
        string_view(const char*, size_t)
        const char* data()


cdef extern from "engine.hpp" namespace "runnel" nogil:
    cdef cppclass Number:
        @staticmethod
        Number of_double "of"(double)
        @staticmethod
        Number of_int "of"(int64_t)
    cdef cppclass Cut:
        @staticmethod
        Cut before(Number)
        @staticmethod
        Cut after(Number)
    enum class Kind(uint8_t):
        absent
        number
        text
        boolean
    enum class Shape(uint8_t):
        equal_text
        prefix
        suffix
        contains
        like
        literal
    enum class Ask(uint8_t):
        above
        below
        text_less
        text_less_equal
        text_more
        text_more_equal
        not_equal
        not_among
        holds
        not_holds
        like
        not_like
        present
        absent
    cdef cppclass Test:
        Ask ask
        Kind kind
        uint32_t attribute
        Cut cut
        uint32_t key
        vector[uint32_t]* members
    cdef cppclass Attribute:
        uint32_t uses
    cdef cppclass Keys:
        vector[Attribute] attributes
        uint64_t asked_changes
        uint32_t use_number(uint32_t, Number) except +
        uint32_t use_bool(uint32_t, cbool) except +
        uint32_t use_text(uint32_t, Shape, string_view) except +
        void begin_event()
        void set_number(uint32_t, Number)
        void set_bool(uint32_t, cbool)
        void set_text(uint32_t, string_view) except +
    cdef cppclass Slice:
        const int64_t* first
        size_t count
    cdef cppclass Answer:
        vector[Slice] slices
        vector[int64_t] loose
        size_t count()
    cdef cppclass Conjunction:
        vector[uint32_t] equals
        vector[vector[uint32_t]] sets
        vector[uint32_t] set_attributes
        vector[Kind] set_kinds
        vector[Test] tests
    cdef cppclass Engine:
        Keys keys
        uint64_t version
        size_t size()
        cbool has(int64_t)
        void add(int64_t, vector[Conjunction]&) except +
        cbool remove(int64_t)
        void match(Answer&) except +
        void look(Answer&) except +


cdef extern from "packed.hpp" namespace "runnel" nogil:
    cdef cppclass Packed:
        void forget() except +
        void know(string_view, uint32_t) except +
        cbool read(const char*, size_t, Keys&) except +


cdef extern from "tally.hpp" namespace "runnel" nogil:
    cdef cppclass Total:
        int64_t count, amount, first, last
    cdef cppclass Totaliser "runnel::Tally":
        cbool empty()
        void add(const Answer&, int64_t, int64_t) except +
        void take(vector[int64_t]&, vector[Total]&) except +


cdef enum Code:
    EQ, NE, LT, LE, GT, GE, PREFIX, SUFFIX, CONTAINS, LIKE, IN, PRESENT
    NOT_PREFIX, NOT_SUFFIX, NOT_CONTAINS, NOT_LIKE, NOT_IN, ABSENT

cdef dict CODES = {
    Op.EQ: EQ, Op.NE: NE, Op.LT: LT, Op.LE: LE, Op.GT: GT, Op.GE: GE,
    Op.PREFIX: PREFIX, Op.SUFFIX: SUFFIX, Op.CONTAINS: CONTAINS, Op.LIKE: LIKE, Op.IN: IN,
    Op.PRESENT: PRESENT, Op.NOT_PREFIX: NOT_PREFIX, Op.NOT_SUFFIX: NOT_SUFFIX,
    Op.NOT_CONTAINS: NOT_CONTAINS, Op.NOT_LIKE: NOT_LIKE, Op.NOT_IN: NOT_IN, Op.ABSENT: ABSENT,
}

DEF TESTS_MAX = 65_000  # an entry counts its tests in 16 bits

cdef array.array ID_ARRAY = array.array("q")


cdef inline string_view text_of(object value) noexcept:
    """A string as UTF-8; without data (and with no Python error left set) where it cannot be encoded."""
    cdef Py_ssize_t size = 0
    cdef const char* data = PyUnicode_AsUTF8AndSize(value, &size)
    if data is NULL:
        PyErr_Clear()
    return string_view(data, size)


cdef inline Number number_of(object value) except *:
    cdef int overflow = 0
    cdef long long exact
    if PyFloat_Check(value):
        return Number.of_double(PyFloat_AS_DOUBLE(value))
    exact = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        raise InvalidValue("an int does not fit 64 bits; send it as a float or a string")
    return Number.of_int(<int64_t> exact)


cdef void collect(const int64_t* ids, size_t count, const long long* labels, size_t size,
                  vector[int64_t]& found, vector[cbool]& seen) noexcept nogil:
    """Appends to `found` the labels of the ids that were not `seen` before."""
    cdef size_t i
    cdef int64_t label
    for i in range(count):
        label = labels[ids[i]] if <size_t> ids[i] < size else -1
        if label < 0:
            continue
        if <size_t> label >= seen.size():
            seen.resize(label + 1)
        if not seen[label]:
            seen[label] = True
            found.push_back(label)


cdef inline Kind kind_of(object literal):
    if PyUnicode_Check(literal):
        return Kind.text
    return Kind.boolean if PyBool_Check(literal) else Kind.number


def distinct(array.array ids, array.array table) -> list:
    """The distinct non-negative values that a table has for some ids; both are array('q')."""
    if ids.typecode != "q" or table.typecode != "q":
        raise InputError("the ids and the table of a distinct() are array('q')")
    cdef vector[int64_t] found
    cdef vector[cbool] seen
    collect(<const int64_t*> ids.data.as_voidptr, len(ids), table.data.as_longlongs, len(table), found, seen)
    return found


@cython.freelist(64)
@cython.no_gc
@cython.final
cdef class Matches:
    """The ids of the subscriptions that want one event; see `runnel.matching.engine.Matches`."""

    cdef Answer answer
    cdef size_t count
    cdef uint64_t version
    cdef CompiledEngine engine

    def __dealloc__(self):
        if self.engine is None:
            return
        self.answer.slices.clear()
        self.answer.slices.swap(self.engine.spare)  # most answers are dropped before the next is asked for

    def __len__(self) -> int:
        return self.count

    def __iter__(self):
        return iter(self.ids())

    cdef int check(self) except -1:
        if self.engine is None or self.version != self.engine.core.version:
            raise InputError("this answer is stale: the engine has changed since; read ids() before changing it")
        return 0

    def ids(self) -> array.array:
        """All ids, as one array('q')."""
        self.check()
        cdef array.array out = array.clone(ID_ARRAY, self.count, False)
        cdef int64_t* at = <int64_t*> out.data.as_voidptr
        cdef Slice piece
        for piece in self.answer.slices:
            memcpy(at, piece.first, piece.count * sizeof(int64_t))
            at += piece.count
        if not self.answer.loose.empty():
            memcpy(at, self.answer.loose.data(), self.answer.loose.size() * sizeof(int64_t))
        return out

    def distinct(self, table: array.array) -> list:
        """The distinct non-negative values that `table` (an array('q') by id) has for the ids."""
        self.check()
        cdef array.array labels = table
        if labels.typecode != 'q':
            raise InputError("the table of a distinct() is an array('q')")
        cdef vector[int64_t] found
        cdef Slice piece
        for piece in self.answer.slices:
            collect(piece.first, piece.count, labels.data.as_longlongs, len(labels), found, self.engine.seen_labels)
        collect(self.answer.loose.data(), self.answer.loose.size(), labels.data.as_longlongs, len(labels), found,
                self.engine.seen_labels)
        cdef list out = []
        cdef int64_t label
        for label in found:
            self.engine.seen_labels[label] = False
            out.append(label)
        return out

    def slices(self) -> list:
        """The ids as the index keeps them: a few memoryviews, nothing copied."""
        self.check()
        cdef list out = []
        cdef Slice piece
        for piece in self.answer.slices:
            out.append(PyMemoryView_FromMemory(<char*> piece.first, piece.count * sizeof(int64_t), PyBUF_READ).cast("q"))
        if not self.answer.loose.empty():
            out.append(memoryview(self.ids())[self.count - self.answer.loose.size():])
        return out


@cython.final
cdef class CompiledEngine:
    """The fast engine; the interface is `runnel.matching.engine.Engine`."""

    cdef Engine core
    cdef dict numbers            # attribute name → its number in the core
    cdef list free               # numbers of attributes nobody asks for any more
    cdef list asked              # names some filter asks for …
    cdef vector[uint32_t] asked_numbers  # … and their numbers
    cdef Packed packed           # the same, for events as msgpack
    cdef uint64_t asked_changes
    cdef vector[cbool] seen_labels  # scratch of Matches.distinct, all False between calls
    cdef vector[Slice] spare     # memory of an answer that was dropped, for the next one

    name = "compiled"

    def __cinit__(self):
        self.numbers = {}
        self.free = []
        self.asked = []

    def __len__(self) -> int:
        return self.core.size()

    def __contains__(self, id: object) -> bool:
        return isinstance(id, int) and 0 <= id <= ID_MAX and self.core.has(id)

    def add(self, id: object, selection: object) -> None:
        """File a selection under an id that is not in use."""
        check_new_id(id, self)
        cdef vector[Conjunction] disjuncts
        cdef tuple parts, conjunctions = selection.disjuncts
        for conjunction in conjunctions:
            if len(conjunction.predicates) > TESTS_MAX:
                raise InputError(f"a filter has over {TESTS_MAX} predicates; split it")
        disjuncts.resize(len(conjunctions))
        cdef size_t i
        for i in range(disjuncts.size()):
            for predicate in <tuple> conjunctions[i].predicates:
                parts = <tuple> predicate  # a NamedTuple, read without its Python iterator
                self.translate(disjuncts[i], self.number(<str> parts[0]), CODES[parts[1]], parts[2])
        self.core.add(id, disjuncts)

    def remove(self, id: object) -> None:
        """Forget an id and its selection."""
        if id not in self:
            raise unknown_id(id)
        self.core.remove(id)

    cdef int read(self, object attributes) except -1:
        """Takes in an event."""
        cdef dict event = attributes if type(attributes) is dict else dict(attributes)
        if self.asked_changes != self.core.keys.asked_changes:
            self.list_asked()
        self.core.keys.begin_event()
        cdef size_t i, n = self.asked_numbers.size()
        cdef PyObject* found
        if <size_t> len(event) < n:
            for name, value in event.items():
                found = PyDict_GetItemWithError(self.numbers, name)
                if found is not NULL:
                    self.set(<uint32_t> <object> found, name, value)
        else:
            for i in range(n):
                found = PyDict_GetItemWithError(event, <object> PyList_GET_ITEM(self.asked, i))
                if found is not NULL:
                    self.set(self.asked_numbers[i], <object> PyList_GET_ITEM(self.asked, i), <object> found)
        return 0

    def match(self, attributes: object) -> Matches:
        """Who wants this event?"""
        self.read(attributes)
        cdef Matches out = Matches.__new__(Matches)
        out.engine = self
        out.answer.slices.swap(self.spare)
        self.core.match(out.answer)
        out.count = out.answer.count()
        out.version = self.core.version
        return out

    def match_batch(self, columns: object) -> BatchMatches:
        """Who wants each row of these columns (attribute name → values, None where absent)?"""
        if self.asked_changes != self.core.keys.asked_changes:
            self.list_asked()
        cdef list names = [], values = []
        cdef vector[uint32_t] numbers
        cdef Py_ssize_t row, rows = BatchMatches.rows_of(columns)
        cdef size_t c
        for name, column in columns.items():
            found = self.numbers.get(name)
            if found is not None:
                names.append(name)
                values.append(BatchMatches.as_list(column))
                numbers.push_back(found)
        cdef array.array offsets = array.clone(ID_ARRAY, rows + 1, True)
        cdef int64_t* ends = <int64_t*> offsets.data.as_voidptr
        cdef vector[int64_t] ids
        cdef Answer answer
        cdef Slice piece
        for row in range(rows):
            self.core.keys.begin_event()
            for c in range(numbers.size()):
                self.set(numbers[c], names[c], (<list> values[c])[row])
            answer.slices.clear()
            answer.loose.clear()
            self.core.match(answer)
            for piece in answer.slices:
                ids.insert(ids.end(), piece.first, piece.first + piece.count)
            ids.insert(ids.end(), answer.loose.begin(), answer.loose.end())
            ends[row + 1] = ids.size()
        cdef array.array out = array.clone(ID_ARRAY, ids.size(), False)
        if not ids.empty():
            memcpy(out.data.as_voidptr, ids.data(), ids.size() * sizeof(int64_t))
        return BatchMatches(offsets, out)

    def tally(self) -> Tally:
        """Something to count matches with, for who wants totals only."""
        cdef Tally out = Tally.__new__(Tally)
        out.engine = self
        return out

    cdef inline int set(self, uint32_t number, object name, object value) except -1:
        cdef double real
        cdef string_view text
        if PyUnicode_Check(value):
            text = text_of(value)
            if text.data() is NULL:
                raise InvalidValue(f"attribute {name!r} holds a lone surrogate; send valid Unicode text")
            self.core.keys.set_text(number, text)
        elif PyFloat_Check(value):
            real = PyFloat_AS_DOUBLE(value)
            if real == real:
                self.core.keys.set_number(number, Number.of_double(real))
        elif PyBool_Check(value):
            self.core.keys.set_bool(number, value is True)
        elif PyLong_Check(value):
            self.core.keys.set_number(number, number_of(value))
        elif value is not None:
            raise InvalidValue(f"attribute {name!r} is a {type(value).__name__}; send str, int, float or bool")
        return 0

    cdef uint32_t number(self, str name) except? 0:
        cdef object found = self.numbers.get(name)
        if found is None:
            if self.free:
                found = self.free.pop()
            else:
                found = self.core.keys.attributes.size()
                self.core.keys.attributes.resize(<size_t> found + 1)
            self.numbers[name] = found
        return found

    cdef int list_asked(self) except -1:
        """Lists the attributes an event must be searched for, and forgets those nobody asks for."""
        self.asked = []
        self.asked_numbers.clear()
        self.packed.forget()
        for name, number in list(self.numbers.items()):
            if self.core.keys.attributes[<size_t> number].uses:
                self.asked.append(name)
                self.asked_numbers.push_back(number)
                self.packed.know(text_of(name), number)
            else:
                del self.numbers[name]
                self.free.append(number)
        self.asked_changes = self.core.keys.asked_changes
        return 0

    cdef uint32_t equality(self, uint32_t attribute, object literal) except? 0:
        cdef Kind kind = kind_of(literal)
        if kind == Kind.text:
            return self.core.keys.use_text(attribute, Shape.equal_text, text_of(literal))
        if kind == Kind.boolean:
            return self.core.keys.use_bool(attribute, literal is True)
        return self.core.keys.use_number(attribute, number_of(literal))

    cdef int translate(self, Conjunction& out, uint32_t attribute, int code, object value) except -1:
        cdef Test test
        cdef vector[uint32_t] members
        test.attribute = attribute
        test.kind = Kind.text
        if code == EQ:
            out.equals.push_back(self.equality(attribute, value))
            return 0
        if code == IN or code == NOT_IN:
            for member in value:
                members.push_back(self.equality(attribute, member))
            sort(members.begin(), members.end())
            test.kind = kind_of(value[0])
            if code == IN:
                out.sets.push_back(members)
                out.set_attributes.push_back(attribute)
                out.set_kinds.push_back(test.kind)
                return 0
            test.ask = Ask.not_among
            test.members = new vector[uint32_t](members)
        elif code == NE:
            test.ask = Ask.not_equal
            test.kind = kind_of(value)
            test.key = self.equality(attribute, value)
        elif code == PRESENT or code == ABSENT:
            test.ask = Ask.present if code == PRESENT else Ask.absent
        elif code <= GE:
            self.translate_order(test, code, value)
        else:
            self.translate_pattern(test, code, value)
        out.tests.push_back(test)
        return 0

    cdef int translate_order(self, Test& test, int code, object value) except -1:
        cdef Number number
        if kind_of(value) == Kind.text:
            test.ask = (Ask.text_less if code == LT else Ask.text_less_equal if code == LE
                        else Ask.text_more if code == GT else Ask.text_more_equal)
            test.key = self.core.keys.use_text(test.attribute, Shape.literal, text_of(value))
            return 0
        test.kind = Kind.number
        number = number_of(value)
        test.ask = Ask.above if code == GT or code == GE else Ask.below
        test.cut = Cut.after(number) if code == GT or code == LE else Cut.before(number)
        return 0

    cdef int translate_pattern(self, Test& test, int code, object value) except -1:
        cdef Shape shape
        if code == PREFIX or code == NOT_PREFIX:
            shape = Shape.prefix
        elif code == SUFFIX or code == NOT_SUFFIX:
            shape = Shape.suffix
        elif code == CONTAINS or code == NOT_CONTAINS:
            shape = Shape.contains
        else:
            shape = Shape.like
        test.key = self.core.keys.use_text(test.attribute, shape, text_of(value))
        if shape == Shape.like:
            test.ask = Ask.like if code == LIKE else Ask.not_like
        else:
            test.ask = Ask.holds if code <= CONTAINS else Ask.not_holds
        return 0


@cython.final
cdef class Tally:
    """What many events come to; see `runnel.matching.tally.Tally`."""

    cdef Totaliser core
    cdef Answer answer
    cdef uint64_t version
    cdef CompiledEngine engine

    cdef int check(self) except -1:
        if self.core.empty():
            self.version = self.engine.core.version
        elif self.version != self.engine.core.version:
            raise InputError("this tally is stale: the engine has changed since; take() before changing it")
        return 0

    def add(self, attributes: object, amount: int64_t, at: int64_t) -> None:
        """An event of this amount at this time."""
        self.check()
        self.engine.read(attributes)
        self.count(amount, at)

    def add_packed(self, events: object, const int64_t[::1] rows) -> list:
        """Some rows of many events; those that must be added one by one are handed back."""
        cdef const uint8_t[::1] data = events[0]
        cdef const int64_t[::1] edges = events[1], amounts = events[2], times = events[3]
        self.check()
        if self.engine.asked_changes != self.engine.core.keys.asked_changes:
            self.engine.list_asked()
        cdef Py_ssize_t i, size = min(edges.shape[0] - 1, amounts.shape[0], times.shape[0])
        cdef int64_t row
        cdef list left = []
        for i in range(rows.shape[0]):
            row = rows[i]
            if not (0 <= row < size and 0 <= edges[row] <= edges[row + 1] <= data.shape[0]):
                raise InputError(f"there is no row {row} in the events that were given")
            self.engine.core.keys.begin_event()
            if edges[row] < edges[row + 1] and self.engine.packed.read(
                    <const char*> &data[edges[row]], edges[row + 1] - edges[row], self.engine.core.keys):
                self.count(amounts[row], times[row])
            else:
                left.append(row)
        return left

    cdef inline int count(self, int64_t amount, int64_t at) except -1:
        self.answer.slices.clear()
        self.answer.loose.clear()
        self.engine.core.look(self.answer)
        self.core.add(self.answer, amount, at)
        return 0

    def take(self) -> Totals:
        """What all events since the last time came to."""
        self.check()
        cdef vector[int64_t] ids
        cdef vector[Total] totals
        self.core.take(ids, totals)
        cdef list columns = []
        cdef array.array column
        cdef size_t i
        cdef int which
        for which in range(5):
            column = array.clone(ID_ARRAY, ids.size(), False)
            for i in range(ids.size()):
                column.data.as_longlongs[i] = (
                    ids[i] if which == 0 else totals[i].count if which == 1 else totals[i].amount if which == 2
                    else totals[i].first if which == 3 else totals[i].last)
            columns.append(column)
        return Totals(*columns)
