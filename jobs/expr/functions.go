package expr

// A function that expressions may call.
type function struct {
	args     [][]Type // what each argument may be; nil: anything
	optional int      // how many of the last arguments may be left out
	variadic bool     // the last argument may be repeated
	loop     bool     // the second argument is evaluated for each element of the first
	test     bool     // and is a condition
	status   bool     // only in conditions
	result   Type     // "": that of the first argument
}

// functions is what expressions may call. The set is closed: whatever waits,
// reads a clock or draws a random number is not in it.
var functions = declareFunctions()

func declareFunctions() map[string]function {
	text, list, number := []Type{TypeText}, []Type{TypeList}, []Type{TypeInteger, TypeNumber, TypeMoney}
	one := func(t []Type, result Type) function { return function{args: [][]Type{t}, result: result} }
	test := func(result Type) function {
		return function{args: [][]Type{list, nil}, loop: true, test: true, result: result}
	}
	status := function{status: true, result: TypeBoolean}
	return map[string]function{
		"dec":       one([]Type{TypeText, TypeInteger, TypeMoney}, TypeMoney),
		"date":      one([]Type{TypeText, TypeDate}, TypeDate),
		"timestamp": one([]Type{TypeText, TypeTimestamp}, TypeTimestamp),
		"string":    one([]Type{TypeText, TypeInteger, TypeNumber, TypeBoolean, TypeMoney, TypeDate, TypeTimestamp}, TypeText),
		"int":       one([]Type{TypeText, TypeInteger, TypeNumber}, TypeInteger),
		"len":       one([]Type{TypeText, TypeList, TypeObject}, TypeInteger),

		"lower":      one(text, TypeText),
		"upper":      one(text, TypeText),
		"trim":       one(text, TypeText),
		"trimPrefix": {args: [][]Type{text, text}, result: TypeText},
		"trimSuffix": {args: [][]Type{text, text}, result: TypeText},
		"replace":    {args: [][]Type{text, text, text}, result: TypeText},
		"repeat":     {args: [][]Type{text, {TypeInteger}}, result: TypeText},
		"split":      {args: [][]Type{text, text}, result: TypeList},
		"join":       {args: [][]Type{list, text}, optional: 1, result: TypeText},

		"abs":    one(number, ""),
		"min":    {args: [][]Type{number}, variadic: true},
		"max":    {args: [][]Type{number}, variadic: true},
		"first":  one(list, TypeAny),
		"last":   one(list, TypeAny),
		"keys":   one([]Type{TypeObject}, TypeList),
		"values": one([]Type{TypeObject}, TypeList),

		"all":    test(TypeBoolean),
		"any":    test(TypeBoolean),
		"none":   test(TypeBoolean),
		"one":    test(TypeBoolean),
		"filter": test(TypeList),
		"map":    {args: [][]Type{list, nil}, loop: true, result: TypeList},
		"find":   test(TypeAny),
		"count":  {args: [][]Type{list, nil}, optional: 1, loop: true, test: true, result: TypeInteger},
		"sum":    {args: [][]Type{list, nil}, optional: 1, loop: true, result: TypeAny},

		"success": status, "failure": status, "always": status, "cancelled": status,
	}
}
